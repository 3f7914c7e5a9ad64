"""The xgrammar plugin's patterns: read as ECMA 262 says, and turned into automata of exactly their language."""

import itertools
import re
from collections.abc import Iterator

import jsonschema_rs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from structout import Err, ErrorKind, Ok
from structout_xgrammar.automaton import MAX_STATES, Automaton, automaton
from structout_xgrammar.formats import FORMATS
from structout_xgrammar.patterns import anywhere, read

TEXTS = ["".join(letters) for length in range(5) for letters in itertools.product("abé", repeat=length)]


def machine(pattern: str, *, search: bool = False) -> Automaton:
    tree = read(pattern).unwrap()
    return automaton(anywhere(tree) if search else tree).unwrap()


def matches(found: Automaton, text: str) -> bool:
    state = 0
    for character in text:
        targets = (
            target
            for ranges, target in found.targets(state)
            if any(first <= ord(character) <= last for first, last in ranges)
        )
        if (following := next(targets, None)) is None:
            return False
        state = following
    return state in found.accepting


def patterns() -> st.SearchStrategy[str]:
    """Patterns that mean the same to Python, but for ``$``, which there also stands before a last line feed."""
    atoms = st.sampled_from(["a", "b", "é", ".", "[ab]", "[^a]", r"\w", r"\W", r"[^\Wb]", r"\u00e9", r"\x61", "()"])
    quantifiers = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "{2,3}?", "*?"])
    return st.recursive(
        st.builds(str.__add__, atoms, quantifiers),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map("".join),
            st.lists(inner, min_size=1, max_size=3).map("|".join),
            st.builds("({}){}".format, inner, quantifiers),
            st.builds("(?:{}){}".format, inner, quantifiers),
            inner.map("^{}".format),
            inner.map("{}$".format),
        ),
        max_leaves=8,
    )


@given(patterns())
def test_an_automaton_matches_what_the_pattern_does(pattern: str) -> None:
    expected = re.compile(pattern, re.ASCII)
    match read(pattern).and_then(automaton):
        case Ok(found):
            assert [text for text in TEXTS if matches(found, text) != bool(expected.fullmatch(text))] == []
        case Err(fault):
            assert fault.kind is ErrorKind.UNSATISFIABLE
            assert not any(map(expected.fullmatch, TEXTS))


@given(patterns())
def test_without_anchors_a_pattern_matches_anywhere(pattern: str) -> None:
    expected = re.compile(pattern, re.ASCII)
    match automaton(anywhere(read(pattern).unwrap())):
        case Ok(found):
            assert [text for text in TEXTS if matches(found, text) != bool(expected.search(text))] == []
        case Err():
            assert not any(map(expected.search, TEXTS))


@given(patterns(), st.integers(0, 3), st.none() | st.integers(0, 4))
def test_lengths_are_counted_in_characters(pattern: str, lower: int, upper: int | None) -> None:
    whole = read(pattern).and_then(automaton)
    assume(isinstance(whole, Ok))
    found = whole.unwrap()

    def fits(text: str) -> bool:
        return matches(found, text) and lower <= len(text) <= (len(text) if upper is None else upper)

    match found.within(lower, upper):
        case Ok(counted):
            assert [text for text in TEXTS if matches(counted, text) != fits(text)] == []
        case Err():
            assert not any(map(fits, TEXTS))


@given(patterns())
def test_automata_have_no_dead_ends_and_no_two_ways(pattern: str) -> None:
    match read(pattern).and_then(automaton):
        case Err():
            return
        case Ok(found):
            pass
    ends = set(found.accepting)
    while more := {state for state, row in enumerate(found.moves) if ends & {*row.values()}} - ends:
        ends |= more
    assert ends == {*range(len(found.moves))}
    for state in range(len(found.moves)):
        pairs = sorted(pair for ranges, _ in found.targets(state) for pair in ranges)
        assert all(before[1] < after[0] for before, after in itertools.pairwise(pairs))


ECMA: list[tuple[str, list[str], list[str]]] = [
    (r"\d+", ["10"], ["١"]),
    (r"\s", ["\u00a0", "\ufeff"], ["a"]),
    (r"[^\S\t]", [" "], ["\t", "a"]),
    (".", ["\u0085", "😀"], ["\n", "\r", "\u2028"]),
    (r"[\]\-^]", ["]", "-", "^"], ["a"]),
    ("[a-]", ["a", "-"], ["b"]),
    ("[^]", ["\n"], []),
    (r"\cA\0[\b]", ["\x01\x00\x08"], ["cA0b"]),
    (r"\ud83d\ude00", ["😀"], []),
    ("a{x}", ["a{x}"], ["a"]),
    ("]}", ["]}"], []),
    ("(?<name>a)(?P<other>b)", ["ab"], []),
    (r"\/\-\.", ["/-."], ["/-a"]),
    ("^^a$$", ["a"], []),
    ("a$b|c^|(^a|b)c$", ["ac", "bc"], ["ab", "a", "c"]),
    ("$^|a", ["", "a"], ["b"]),
    ("(a|a(|b))|cc", ["a", "ab", "cc"], ["ccb"]),
]


@pytest.mark.parametrize(("pattern", "matching", "others"), ECMA)
def test_ecma_262(pattern: str, matching: list[str], others: list[str]) -> None:
    found = machine(pattern)
    assert [text for text in matching if not matches(found, text)] == []
    assert [text for text in others if matches(found, text)] == []


FAULTS: list[tuple[str, ErrorKind, int | None]] = [
    ("a(b", ErrorKind.INVALID_SPEC, 1),
    ("a)", ErrorKind.INVALID_SPEC, 1),
    ("a[b", ErrorKind.INVALID_SPEC, 1),
    ("*a", ErrorKind.INVALID_SPEC, 0),
    ("a**", ErrorKind.INVALID_SPEC, 2),
    ("a{2}{3}", ErrorKind.INVALID_SPEC, 4),
    ("^*", ErrorKind.INVALID_SPEC, 1),
    ("a{3,2}", ErrorKind.INVALID_SPEC, 1),
    ("[b-a]", ErrorKind.INVALID_SPEC, 0),
    ("a\\", ErrorKind.INVALID_SPEC, 1),
    (r"\u{110000}", ErrorKind.INVALID_SPEC, 0),
    (r"a\b", ErrorKind.UNSUPPORTED, 1),
    (r"(a)\1", ErrorKind.UNSUPPORTED, 3),
    (r"\p{L}", ErrorKind.UNSUPPORTED, 0),
    (r"\01", ErrorKind.UNSUPPORTED, 0),
    ("(?!a)", ErrorKind.UNSUPPORTED, 0),
    ("(?<=a)", ErrorKind.UNSUPPORTED, 0),
    ("(?i:a)", ErrorKind.UNSUPPORTED, 0),
    ("a{,2}", ErrorKind.UNSUPPORTED, 1),
    ("[[:alpha:]]", ErrorKind.UNSUPPORTED, 0),
    (r"[\w-z]", ErrorKind.UNSUPPORTED, 0),
    ("(a|b)*a(a|b){18}", ErrorKind.TOO_COMPLEX, None),
    ("(((a{99}){99}){99}){99}", ErrorKind.TOO_COMPLEX, None),
    (f"a{{{MAX_STATES}}}", ErrorKind.TOO_COMPLEX, None),
    (r"\ud800", ErrorKind.UNSATISFIABLE, None),
    ("a^b", ErrorKind.UNSATISFIABLE, None),
]


@pytest.mark.parametrize(("pattern", "kind", "offset"), FAULTS)
def test_faults_say_what_is_wrong_and_where(pattern: str, kind: ErrorKind, offset: int | None) -> None:
    result = read(pattern).and_then(automaton)
    assert isinstance(result, Err)
    assert (result.error.kind, result.error.offset) == (kind, offset)


def test_equal_states_are_one() -> None:
    assert len(machine("(a|b)(c|d)|(b|a)(d|c)").moves) == 3
    assert len(machine("a{1,100}").moves) == 101


def texts(found: Automaton, data: st.DataObject) -> Iterator[str]:
    state = 0
    while state not in found.accepting or (found.moves[state] and data.draw(st.booleans())):
        ranges, state = data.draw(st.sampled_from(list(found.targets(state))))
        first, last = data.draw(st.sampled_from(ranges))
        yield chr(data.draw(st.integers(first, min(last, first + 300))))


@pytest.mark.parametrize("name", FORMATS)
@given(st.data())
def test_every_text_of_a_format_is_valid(name: str, data: st.DataObject) -> None:
    text = "".join(texts(machine(FORMATS[name]), data))
    assert jsonschema_rs.validator_for({"format": name}, validate_formats=True).is_valid(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("date", "2024-01-31"),
        ("time", "23:59:59.5+01:00"),
        ("date-time", "2024-12-31T00:00:00Z"),
        ("duration", "P1Y2M3DT4H5M6S"),
        ("email", "first.last@mail.example.org"),
        ("hostname", "www.example-site.org"),
        ("ipv4", "192.168.0.255"),
        ("ipv6", "2001:db8::ff00:42:8329"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000"),
        ("uri", "https://example.org:8080/a/b?c=d%20e#f"),
        ("uri-reference", "/a/b?c"),
        ("json-pointer", "/a~1b/0"),
        ("relative-json-pointer", "1/a"),
    ],
)
def test_ordinary_texts_are_not_left_out(name: str, text: str) -> None:
    assert matches(machine(FORMATS[name]), text)
