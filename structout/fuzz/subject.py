"""A schema to make texts for: its nodes, what they lead to, and its reference validator."""

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from structout.errors import GrammarError
from structout.result import Result
from structout.schema import ReferenceValidator, reference_validator
from structout.schema.loading import load_registry, load_schema
from structout.schema.references import ReferenceIndex
from structout.schema.walk import Node, Place, Schema, children, root
from structout.spec import JsonSchema

Parts = Mapping[str, tuple[Node, ...]]
"""The subschemas directly inside a schema, by the keyword that holds them."""


class Structure:
    """The nodes of a schema document and its registry."""

    def __init__(self, schema: Schema, spec: JsonSchema, registry: Mapping[str, Schema]) -> None:
        self.registry = registry
        self.root = root(schema, spec.dialect)
        self._index = ReferenceIndex(self.root, registry, spec.dialect)
        self._parts: dict[Place, Parts] = {}

    def reachable(self) -> Iterator[Node]:
        """See `structout.schema.reachable`."""
        return self._index.reachable()

    def targets(self, node: Node) -> Iterator[Node]:
        """What the references in a node may mean."""
        return self._index.targets(node)

    def parts(self, node: Node) -> Parts:
        """The subschemas of a node; those of an absent keyword are not in the mapping."""
        if node.place not in self._parts:
            found: dict[str, list[Node]] = defaultdict(list)
            for inner in children(node):
                found[inner.keyword or ""].append(inner)
            self._parts[node.place] = {keyword: tuple(nodes) for keyword, nodes in found.items()}
        return self._parts[node.place]

    def of_member(self, node: Node, name: str) -> list[Node]:
        """The subschemas of a node that apply to a member, those for unevaluated ones aside."""
        parts = self.parts(node)
        found = [inner for inner in parts.get("properties", ()) if inner.path[-1] == name]
        found += [inner for inner in parts.get("patternProperties", ()) if matches(str(inner.path[-1]), name)]
        return found or list(parts.get("additionalProperties", ()))

    def of_item(self, node: Node, index: int) -> list[Node]:
        """The subschemas of a node that apply to an item, those for contained or unevaluated ones aside."""
        parts = self.parts(node)
        first = parts.get("prefixItems", ())
        rest: Iterable[Node] = parts.get("items", ())
        if isinstance(node.keywords.get("items"), list):
            first, rest = parts.get("items", ()), parts.get("additionalItems", ())
        return list(first[index : index + 1]) or list(rest)


@functools.lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern, re.ASCII)
    except re.error:
        return None


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern of a schema is found in a text: by Python's rules, which are not quite those of ECMA 262."""
    compiled = _compiled(pattern)
    return compiled is not None and compiled.search(text) is not None


@attrs.frozen
class Subject:
    """A spec that `reference_validator` takes, with all that texts are made from. Made by `subject_of`."""

    spec: JsonSchema
    structure: Structure
    validator: ReferenceValidator

    def changed(self, node: Node, keyword: str, instead: Mapping[str, Any]) -> Structure:
        """The structure of the same schema, in which ``node``, which stands in the schema itself, has other keywords
        instead of one of its own."""
        path: list[str | int] = []
        while node.parent is not None:
            path[:0] = node.path
            node = node.parent
        return Structure(_changed(node.schema, path, keyword, instead), self.spec, self.structure.registry)


def _changed(value: Any, path: Sequence[str | int], keyword: str, instead: Mapping[str, Any]) -> Any:
    """A copy of a JSON value, no deeper than it has to be, with the change made to the object at ``path``."""
    if not path:
        return {name: inner for name, inner in value.items() if name != keyword} | dict(instead)
    copy = value.copy()
    copy[path[0]] = _changed(value[path[0]], path[1:], keyword, instead)
    return copy


def subject_of(spec: JsonSchema) -> Result[Subject, GrammarError]:
    """What is needed to make texts for a spec; errors as in `structout.schema.check_schema`."""
    return reference_validator(spec).and_then(
        lambda validator: load_schema(spec).and_then(
            lambda schema: load_registry(spec).map(
                lambda registry: Subject(spec, Structure(schema, spec, registry), validator)
            )
        )
    )
