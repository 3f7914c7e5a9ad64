"""Cases of regular expressions, EBNF, choices and tags: what they say of their texts is true, whoever is asked."""

import re
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from structout import Ebnf, Err, ErrorKind, Ok, Regex, Status
from structout.discovery import discover
from structout.fuzz.case import Case
from structout.fuzz.choices import Drawn, Seeded
from structout.fuzz.language_nodes import (
    ANY_BUT_NEWLINE,
    CLUSTERS,
    Alt,
    CharClass,
    Language,
    Literal,
    Node,
    Repeat,
    RuleRef,
    Seq,
)
from structout.fuzz.language_text import to_gbnf, to_regex
from structout.fuzz.language_trees import Trees, edited
from structout.fuzz.languages import choice_cases, ebnf_cases, regex_cases, tag_cases
from structout.fuzz.vocabulary import byte_vocabulary
from structout.grammar import BoundBackend
from structout.spec import Choice, GrammarSpec, StructuralTag

STRATEGIES: dict[str, Callable[[], SearchStrategy[Case]]] = {
    "regex": regex_cases,
    "ebnf": ebnf_cases,
    "choice": choice_cases,
    "structural_tag": tag_cases,
}
EOS = 256


@cache
def backend(name: str) -> BoundBackend:
    registered = discover(disable=[]).find(name).unwrap()
    return BoundBackend.create(registered.info, None, byte_vocabulary()).unwrap()


def verdicts(name: str, case: Case) -> list[bool] | None:
    """Whether a backend accepts each member and each stranger; None if it does not support the spec."""
    match backend(name).compile(case.spec):
        case Err(error):
            assert error.kind in (ErrorKind.UNSUPPORTED, ErrorKind.TOO_COMPLEX), (case.spec, error)
            return None
        case Ok(grammar):
            found = []
            for text in case.members + case.strangers:
                constraint = grammar.start().unwrap()
                tokens = (*text.text.encode(), EOS)
                found.append(all(constraint.accept(token) is Status.OK for token in tokens))
            return found


def expected(case: Case) -> list[bool]:
    return [True] * len(case.members) + [False] * len(case.strangers)


@pytest.mark.parametrize("kind", STRATEGIES)
def test_the_reference_backend_agrees(kind: str) -> None:
    """It and the trees' own recognizer have nothing in common but the language."""

    @settings(max_examples=100)
    @given(STRATEGIES[kind]())
    def agrees(case: Case) -> None:
        assert case.spec.kind == kind
        assert verdicts("reference", case) == expected(case)

    agrees()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("xgrammar", "regex"),
        ("xgrammar", "ebnf"),
        ("xgrammar", "structural_tag"),
        ("llguidance", "regex"),
        ("llguidance", "choice"),
        ("outlines", "choice"),
    ],
)
def test_other_backends_agree(name: str, kind: str) -> None:
    """On a few cases, the same ones each time: that they agree on all is for the fuzzer to find out."""
    pytest.importorskip({"outlines": "outlines_core"}.get(name, name))

    @settings(max_examples=25, derandomize=True)
    @given(STRATEGIES[kind]())
    def agrees(case: Case) -> None:
        assert verdicts(name, case) in (None, expected(case))

    agrees()


@settings(max_examples=100)
@given(regex_cases())
def test_python_reads_the_patterns_alike(case: Case) -> None:
    assert isinstance(case.spec, Regex)
    pattern = re.compile(case.spec.pattern)
    assert [bool(pattern.fullmatch(text.text)) for text in case.members + case.strangers] == expected(case)


@settings(max_examples=50)
@given(choice_cases())
def test_members_of_a_choice_are_its_options(case: Case) -> None:
    assert isinstance(case.spec, Choice)
    assert {text.text for text in case.members} <= set(case.spec.options)
    assert {text.text for text in case.strangers}.isdisjoint(case.spec.options)


@settings(max_examples=50)
@given(st.one_of(*(strategy() for strategy in STRATEGIES.values())))
def test_cases_are_data(case: Case) -> None:
    assert Case.from_json(case.to_json()) == case
    assert {text.note for text in case.members} <= {"plain"}
    assert {text.note for text in case.strangers} <= {"syntax"}


A, B, AB = Literal("a"), Literal("b"), Literal("ab")
PARENS = {"root": Alt((Seq((Literal("("), RuleRef("root"), Literal(")"))), Repeat(CharClass((("0", "9"),)), 1, None)))}


@pytest.mark.parametrize(
    ("node", "rules", "yes", "no"),
    [
        (Literal(""), {}, [""], ["a"]),
        (Alt((A, AB)), {}, ["a", "ab"], ["", "b", "aba"]),
        (Repeat(Alt((A, AB)), 2, 3), {}, ["aa", "aab", "ababab"], ["a", "aaaa", "b"]),
        (Repeat(Literal(""), 2, None), {}, [""], ["a"]),
        (Seq((Repeat(A, 0, None), A)), {}, ["a", "aaa"], [""]),
        (ANY_BUT_NEWLINE, {}, ["a", "😀"], ["\n", ""]),
        (CharClass((("a", "c"), ("é", "é")), negated=True), {}, ["d", "\n"], ["b", "é"]),
        (RuleRef("root"), PARENS, ["0", "((12))"], ["(1", "()"]),
        (RuleRef("root"), {"root": Alt((Seq((RuleRef("root"), A)), B))}, ["b", "baaa"], ["", "a", "ab"]),
        (RuleRef("root"), {"root": Alt((RuleRef("root"), Seq((RuleRef("root"),) * 2), A))}, ["a", "aaaa"], ["", "b"]),
        (RuleRef("x"), {"x": Seq((RuleRef("y"), A)), "y": Alt((RuleRef("x"), Literal("")))}, ["a", "aaa"], [""]),
    ],
)
def test_what_is_in_a_language(node: Node, rules: dict[str, Node], yes: list[str], no: list[str]) -> None:
    language = Language(node, rules)
    assert [text for text in yes + no if language.has(text)] == yes
    assert {language.derive(Seeded(seed)) for seed in range(40)} & set(yes) or node == ANY_BUT_NEWLINE


@given(st.data())
def test_what_is_derived_is_in_the_language(data: st.DataObject) -> None:
    choices = Drawn(data.draw)
    rules = {"root": Alt((AB, Trees(choices, ["root"]).tree()))}
    language = Language(RuleRef("root"), rules)
    assert language.has(language.derive(choices, fuel=4))


@pytest.mark.parametrize(
    ("node", "regex", "gbnf"),
    [
        (Literal(""), "", '""'),
        (Literal('a.b*"\\\n'), 'a\\.b\\*"\\\\\\n', '"a.b*\\"\\\\\\n"'),
        (Repeat(Literal(""), 0, 1), "(?:)?", '""?'),
        (Repeat(AB, 1, None), "(?:ab)+", '"ab"+'),
        (Repeat(Repeat(A, 0, None), 2, 2), "(?:a*){2}", '("a"*){2}'),
        (Repeat(CharClass((("]", "]"), ("-", "-"), ("^", "a")), negated=True), 2, None), "[^\\]\\-\\^-a]{2,}", None),
        (ANY_BUT_NEWLINE, ".", "[^\\n]"),
        (Seq((Alt((A, Literal(""))), AB)), "(?:a|)ab", '("a" | "") "ab"'),
        (Alt((Seq((A, B)), Alt((A, B)))), "ab|(?:a|b)", '"a" "b" | ("a" | "b")'),
        (Seq(()), "", '""'),
    ],
)
def test_how_trees_are_written(node: Node, regex: str, gbnf: str | None) -> None:
    assert to_regex(node) == regex
    assert to_regex(node, capture=True) == regex.replace("(?:", "(")
    assert to_gbnf({"root": node}) == f"root ::= {regex if gbnf is None else gbnf}\n"


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("regex", r"\[\^"),
        ("ebnf", r'\| root "'),
        ("choice", "é"),
    ],
)
def test_everything_comes_up_and_shrinks(kind: str, wanted: str) -> None:
    def has(case: Case) -> bool:
        return re.search(wanted, _source(case.spec)) is not None and bool(case.members)

    case = find(STRATEGIES[kind](), has, settings=settings(max_examples=2_000, database=None, derandomize=True))
    assert len(_source(case.spec)) <= 40, case.spec
    assert len(case.members[0].text) <= 12


def _source(spec: GrammarSpec) -> str:
    match spec:
        case Regex(pattern=pattern):
            return pattern
        case Choice(options=options):
            return "|".join(options)
        case Ebnf(text=text) | StructuralTag(text=text):
            return text
    raise AssertionError(f"no strategy makes {spec}")


@given(st.integers(0, 10**6), st.text(max_size=5))
def test_edits_are_small(seed: int, original: str) -> None:
    text = edited(Seeded(seed), original)
    assert text.startswith(original) or len(text) <= len(original) + max(map(len, CLUSTERS))
