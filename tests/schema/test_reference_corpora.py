"""The reference validator against the labels of two corpora that it was not made for."""

import json

import pytest

from structout.result import Err, Ok
from structout.schema import reference_validator
from structout.spec import Dialect, FormatMode, JsonSchema
from tests import corpora

# Groups of the suite's required part that the validator gets wrong, with the reason: none.
SUITE_EXCEPTIONS: dict[str, str] = {}

MASKBENCH_EXCEPTIONS = {
    "Github_medium---o58776.json": "`^[[a-z]*[-]?[a-z]*]*$` ends in a `]` that opens nothing: no Unicode-mode ECMA 262",
    "Github_medium---o8473.json": "`format: uuid`, which is younger than the draft 6 that the schema names",
}


@pytest.fixture(scope="module")
def remotes() -> dict[str, str]:
    return {uri: json.dumps(document) for uri, document in corpora.suite_remotes().items()}


@pytest.mark.parametrize(
    ("draft", "dialect", "instances"),
    [("draft7", Dialect.DRAFT_7, 927), ("draft2020-12", Dialect.DRAFT_2020_12, 1299)],
)
def test_the_required_part_of_the_official_suite(
    draft: corpora.Draft, dialect: Dialect, instances: int, remotes: dict[str, str]
) -> None:
    wrong: set[str] = set()
    judged = 0
    for group in corpora.json_schema_test_suite(draft):
        text = json.dumps(group["schema"])
        registry = remotes if '"$ref"' in text or '"$schema"' in text else {}
        spec = JsonSchema(text, dialect=dialect, format_mode=FormatMode.ANNOTATE, registry=registry)
        validator = reference_validator(spec).unwrap()
        for test in group["tests"]:
            judged += 1
            if validator.is_valid(json.dumps(test["data"])) is not test["valid"]:
                wrong.add(f"{draft}/{group['file']}: {group['description']}")
    assert judged == instances
    assert wrong == set(SUITE_EXCEPTIONS)


def test_the_maskbench_sample() -> None:
    wrong: set[str] = set()
    for labelled in corpora.maskbench():
        match reference_validator(JsonSchema(json.dumps(labelled["schema"]))):
            case Err():
                wrong.add(labelled["name"])
            case Ok(validator):
                verdicts = [validator.is_valid(json.dumps(test["data"])) for test in labelled["tests"]]
                if verdicts != [test["valid"] for test in labelled["tests"]]:
                    wrong.add(labelled["name"])
    assert wrong == set(MASKBENCH_EXCEPTIONS)
