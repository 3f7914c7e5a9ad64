"""The examples where parts of a language meet are right, by those who judge backends."""

import pytest

from structout.fuzz.judge import judge_of
from structout.schema import check_schema
from structout.spec import JsonSchema
from structout.testing.interactions import Example, interactions

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
