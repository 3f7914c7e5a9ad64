"""Real schemas and grammars: none is refused by a default limit that was not made for it."""

import json
from typing import Any

import pytest

from structout.errors import ErrorKind
from structout.parsing import choice, ebnf, grammar, json_schema, parse_request, regex, structural_tag
from structout.result import Err, Ok
from structout.spec import Ebnf, JsonSchema, Lark
from tests import corpora

CONSTRUCTORS: dict[str, Any] = {
    "json_schema": json_schema,
    "regex": regex,
    "ebnf": ebnf,
    "choice": choice,
    "structural_tag": structural_tag,
}
# No options, a schema 2,000 levels deep, a grammar 20,000 groups deep, a character class from NUL on, Lark for EBNF.
REFUSED = {
    "ed-empty-choice": ErrorKind.INVALID_SPEC,
    "cr-deep-schema": ErrorKind.TOO_COMPLEX,
    "cr-deep-ebnf": ErrorKind.TOO_COMPLEX,
    "cr-nul-regex": ErrorKind.INVALID_SPEC,
    "es-lark-vs-ebnf": ErrorKind.INVALID_SPEC,
}


def test_the_sample_of_maskbench_is_accepted() -> None:
    for entry in corpora.maskbench():
        text = json.dumps(entry["schema"])
        for schema in (entry["schema"], text):
            match parse_request({"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}):
                case Ok(JsonSchema() as spec):
                    assert spec.schema() == entry["schema"]
                case other:
                    pytest.fail(f"{entry['name']}: {other}")


@pytest.mark.parametrize("optional", [False, True])
@pytest.mark.parametrize("draft", ["draft7", "draft2020-12"])
def test_the_official_suite_is_accepted(draft: corpora.Draft, optional: bool) -> None:
    for group in corpora.json_schema_test_suite(draft, optional=optional):
        match json_schema(group["schema"]):
            case Ok(spec):
                assert spec.schema() == group["schema"]
            case Err(error):
                pytest.fail(f"{group['file']}, {group['description']}: {error}")


def test_the_cases_are_accepted_but_for_the_hostile_ones() -> None:
    refused = {}
    for case in corpora.cases():
        if (constructor := CONSTRUCTORS.get(case["kind"])) is not None:
            result = constructor(case.get("input"))
            if isinstance(result, Err):
                refused[case["id"]] = result.error.kind
    assert refused == REFUSED


def test_the_syntax_of_the_cases_grammars_is_seen() -> None:
    for case in corpora.cases():
        if case["kind"] == "ebnf" and REFUSED.get(case["id"]) is not ErrorKind.TOO_COMPLEX:
            expected = Lark if case["id"] == "es-lark-vs-ebnf" else Ebnf
            assert isinstance(grammar(case.get("input")).unwrap(), expected), case["id"]
