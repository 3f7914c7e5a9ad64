"""The examples where parts of a language meet are right, by those who judge backends; those that are easily misread, by
the backends that take them."""

from functools import cache

import pytest

from structout.backend import BackendInfo, Status
from structout.fuzz.judge import judge_of
from structout.fuzz.target import registry
from structout.fuzz.vocabulary import byte_vocabulary
from structout.grammar import BoundBackend, Grammar
from structout.result import Err, Ok
from structout.schema import check_schema
from structout.spec import SPEC_KINDS, GrammarSpec, JsonSchema
from structout.testing.interactions import Example, interactions
from structout.testing.readings import readings

EXAMPLES = [example for kind in ("json_schema", "regex", "choice", "ebnf") for example in interactions(kind)]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example[0])[-60:])
def test_members_are_members_and_strangers_are_not(example: Example) -> None:
    spec, members, strangers = example
    if isinstance(spec, JsonSchema):
        assert check_schema(spec) is None
    judge = judge_of(spec)
    assert judge is not None
    assert members
    assert strangers
    assert [text for text in members if judge.decide(text.encode()) is not True] == []
    assert [text for text in strangers if judge.decide(text.encode()) is not False] == []


@cache
def backends() -> list[BoundBackend]:
    infos: list[BackendInfo] = [registry().find(name).unwrap().info for name in ("reference", "llguidance", "xgrammar")]
    return [BoundBackend.create(info, None, byte_vocabulary()).unwrap() for info in infos]


def grammars(spec: GrammarSpec) -> list[Grammar]:
    """Of all backends that take a spec."""
    found = []
    for backend in backends():
        match backend.compile(spec) if spec.kind in backend.info.spec_kinds else None:
            case Ok(grammar):
                found.append(grammar)
            case Err() | None:
                continue
    return found


def takes(grammar: Grammar, text: str) -> bool:
    constraint = grammar.start().unwrap()
    return all(constraint.accept(byte) is Status.OK for byte in text.encode()) and constraint.is_accepting


@pytest.mark.parametrize(
    "example", [example for kind in SPEC_KINDS for example in readings(kind)], ids=lambda example: str(example[0])
)
def test_backends_read_them_as_they_are_meant(example: Example) -> None:
    spec, members, strangers = example
    assert members
    assert strangers
    assert grammars(spec)
    for grammar in grammars(spec):
        assert [text for text in members if not takes(grammar, text)] == []
        assert [text for text in strangers if takes(grammar, text)] == []
