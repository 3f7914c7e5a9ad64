"""A schema that becomes part of a larger one: its references to itself have to follow."""

from typing import Any

# Keywords whose value is data and keywords whose value is schemas by name; a name there is no keyword.
_DATA = frozenset({"const", "enum", "default", "examples"})
_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})


def rebase(schema: Any, pointer: str) -> Any:
    """A copy for a place at ``pointer`` of a larger schema: ``$ref`` to ``#`` or ``#/...`` is prefixed with it.

    A subschema with an ``$id`` is a document of its own, to which its references are relative; it is left alone.
    Recurses as deep as the schema nests.
    """
    if isinstance(schema, list):
        return [rebase(item, pointer) for item in schema]
    if not isinstance(schema, dict) or isinstance(schema.get("$id"), str):
        return schema
    return {keyword: _rebase_keyword(keyword, value, pointer) for keyword, value in schema.items()}


def _rebase_keyword(keyword: str, value: Any, pointer: str) -> Any:
    if keyword in _DATA:
        return value
    if keyword == "$ref" and isinstance(value, str) and (value == "#" or value.startswith("#/")):
        return f"#{pointer}{value[1:]}"
    if keyword in _BY_NAME and isinstance(value, dict):
        return {name: rebase(subschema, pointer) for name, subschema in value.items()}
    return rebase(value, pointer)
