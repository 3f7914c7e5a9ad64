"""The table of keywords, against the metaschemas and the behaviour of jsonschema-rs."""

from typing import Any

import pytest

from structout.schema.keywords import DIALECTS, KEYWORDS, Role, dialect_of, known_dialect
from structout.schema.validation import reference_validator
from structout.spec import Dialect, JsonSchema

# Keywords that some dialects lack: a schema that forbids the instance wherever the keyword is one.
FORBIDDING: dict[str, tuple[str, str]] = {
    "const": ('{"const": 2}', "3"),
    "contains": ('{"contains": {"type": "string"}}', "[1]"),
    "propertyNames": ('{"propertyNames": {"maxLength": 1}}', '{"ab": 1}'),
    "if": ('{"if": true, "then": {"type": "string"}}', "3"),
    "dependencies": ('{"dependencies": {"a": ["b"]}}', '{"a": 1}'),
    "dependentRequired": ('{"dependentRequired": {"a": ["b"]}}', '{"a": 1}'),
    "dependentSchemas": ('{"dependentSchemas": {"a": {"required": ["b"]}}}', '{"a": 1}'),
    "prefixItems": ('{"prefixItems": [{"type": "string"}]}', "[1]"),
    "unevaluatedItems": ('{"unevaluatedItems": {"type": "string"}}', "[1]"),
    "unevaluatedProperties": ('{"unevaluatedProperties": {"type": "string"}}', '{"a": 1}'),
    "minContains": ('{"contains": {"type": "integer"}, "minContains": 2}', "[1]"),
    "maxContains": ('{"contains": {"type": "integer"}, "maxContains": 1}', "[1, 1]"),
    "contentMediaType": ('{"contentMediaType": "application/json"}', '"{"'),
    "contentEncoding": ('{"contentEncoding": "base64"}', '"%"'),
    "contentSchema": ('{"contentMediaType": "application/json", "contentSchema": false}', '"3"'),
    "deprecated": ('{"deprecated": true}', "3"),
    "divisibleBy": ('{"divisibleBy": 2}', "3"),
    "nullable": ('{"type": ["null", "string"], "nullable": false}', "null"),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("keyword", FORBIDDING)
def test_the_validator_enforces_a_keyword_where_the_table_says_so(keyword: str, dialect: Dialect) -> None:
    schema, text = FORBIDDING[keyword]
    if dialect is Dialect.DRAFT_4:
        schema = schema.replace('"if": true', '"if": {}').replace("false}", "{}}")
    word = KEYWORDS[dialect].get(keyword)
    enforced = word is not None and word.role is not Role.ANNOTATION
    validator = reference_validator(JsonSchema(schema, dialect=dialect)).unwrap()
    assert validator.is_valid(text) is not enforced


def _properties(metaschema: Any) -> set[str]:
    return set(metaschema.get("properties", {}))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_table_has_the_keywords_of_the_metaschemas(dialect: Dialect) -> None:
    specifications = pytest.importorskip("jsonschema_specifications")
    resource = specifications.REGISTRY.contents(dialect)
    vocabularies = [part["$ref"] for part in resource.get("allOf", ()) if "$ref" in part]
    base = dialect.removesuffix("schema")
    described = _properties(resource).union(
        *(_properties(specifications.REGISTRY.contents(base + name)) for name in vocabularies)
    )
    # Left in the newest metaschema so that nobody reuses the names, but no keywords any more.
    retired = {"$recursiveRef", "$recursiveAnchor"} if dialect is Dialect.DRAFT_2020_12 else set()
    # The oldest metaschemas do not describe what they do not restrict.
    assert described - retired - set(KEYWORDS[dialect]) == set()
    assert set(KEYWORDS[dialect]) - described <= {"$ref", "format", "writeOnly", "contentEncoding"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_dialect_is_known_with_and_without_the_empty_fragment(dialect: Dialect) -> None:
    bare = dialect.removesuffix("#")
    assert known_dialect(bare) is dialect
    assert known_dialect(bare + "#") is dialect


@pytest.mark.parametrize("uri", ["http://json-schema.org/draft-03/schema#", "", "draft-07", 7, None, ["x"]])
def test_anything_else_is_no_known_dialect(uri: object) -> None:
    assert known_dialect(uri) is None


def test_what_the_schema_says_of_its_dialect_wins() -> None:
    assert dialect_of({"$schema": str(Dialect.DRAFT_7)}, Dialect.DRAFT_2020_12) is Dialect.DRAFT_7
    assert dialect_of({"$schema": "http://unknown"}, Dialect.DRAFT_6) is Dialect.DRAFT_6
    assert dialect_of({}, Dialect.DRAFT_6) is Dialect.DRAFT_6
    assert dialect_of(True, Dialect.DRAFT_6) is Dialect.DRAFT_6
