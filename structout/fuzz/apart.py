"""A schema whose definitions are in a document of their own, which it refers to by URI."""

from collections.abc import Iterator
from typing import Any, Final

from structout.fuzz.json_text import write
from structout.schema.walk import Schema

URI: Final = "https://example.com/definitions"
_HOLDERS: Final = ("$defs", "definitions")


def apart(schema: Schema) -> tuple[Schema, dict[str, str]]:
    """A schema that means the same, and the registry that it needs: URI and text of the document.

    Where there are no definitions, or one of them refers to the schema around them, it is the schema itself, and the
    registry is empty.
    """
    holder = next((name for name in _HOLDERS if isinstance(schema, dict) and name in schema), None)
    if holder is None or isinstance(schema, bool) or "#" in _references(schema[holder]):
        return schema, {}
    rest = {name: value for name, value in schema.items() if name != holder}
    moved = {name: value for name, value in schema.items() if name in ("$schema", holder)}
    return _pointed(rest), {URI: write(moved)}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from _references(inner)


def _pointed(value: Any) -> Any:
    """A copy, in which references to definitions lead to the other document."""
    match value:
        case dict():
            return {name: _uri(inner) if name == "$ref" else _pointed(inner) for name, inner in value.items()}
        case list():
            return [_pointed(inner) for inner in value]
        case _:
            return value


def _uri(reference: Any) -> Any:
    is_local = isinstance(reference, str) and reference.startswith(tuple(f"#/{holder}/" for holder in _HOLDERS))
    return URI + reference if is_local else _pointed(reference)
