"""Every subschema of a schema, without recursion, and without mistaking data for schemas."""

import functools
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, TypeGuard

import attrs

from structout.result import Err, Ok
from structout.schema import pointer as json_pointer
from structout.schema.keywords import ID_KEYWORD, KEYWORDS, REF_SUPPRESSES_SIBLINGS, Holds, Role, dialect_of
from structout.spec import Dialect

Schema: TypeAlias = dict[str, Any] | bool
Place: TypeAlias = tuple[int, str | int]


def is_schema(value: object) -> TypeGuard[Schema]:
    """Whether a JSON value has the shape of a schema: an object or a boolean."""
    return isinstance(value, dict | bool)


@attrs.frozen(eq=False, repr=False)
class Node:
    """One subschema where it stands. Compared by identity.

    Attributes:
        schema: the subschema itself, not a copy.
        dialect: the one that holds here.
        parent: node of the schema around it; None for a document's root.
        path: keys and indices that lead to it from ``parent``.
        keyword: the parent's keyword that holds it; None for a root, and for what only a reference makes a schema.
        document: "" for the schema itself, else the URI of the registry's document that it stands in.
        base_uri: what relative references in it are relative to; "" if nothing gives one.
    """

    schema: Schema
    dialect: Dialect
    parent: "Node | None" = None
    path: tuple[str | int, ...] = ()
    keyword: str | None = None
    document: str = ""
    base_uri: str = ""

    @property
    def pointer(self) -> str:
        """RFC 6901 pointer from the document's root."""
        paths: list[tuple[str | int, ...]] = []
        node: Node | None = self
        while node is not None:
            paths.append(node.path)
            node = node.parent
        return json_pointer.join("", *(token for path in reversed(paths) for token in path))

    @property
    def location(self) -> str:
        """The pointer; in a document of the registry, its URI, ``#`` and the pointer."""
        return f"{self.document}#{self.pointer}" if self.document else self.pointer

    @functools.cached_property
    def keywords(self) -> Mapping[str, Any]:
        """The members that are keywords of the dialect. Beside a ``$ref`` of draft 7 or older: the CORE ones only."""
        if isinstance(self.schema, bool):
            return {}
        known = KEYWORDS[self.dialect]
        found = {name: value for name, value in self.schema.items() if name in known}
        if "$ref" in found and self.dialect in REF_SUPPRESSES_SIBLINGS:
            return {name: value for name, value in found.items() if known[name].role is Role.CORE}
        return found

    @functools.cached_property
    def place(self) -> Place:
        """Hashable name of the place (not of the value), for as long as the document is alive."""
        if self.parent is None:
            return (0, self.document)
        holder: Any = self.parent.schema
        for token in self.path[:-1]:
            holder = holder[token]
        return (id(holder), self.path[-1])

    def __repr__(self) -> str:
        return f"Node({self.location!r})"


def root(schema: Schema, dialect: Dialect, *, document: str = "") -> Node:
    """The node of a whole document; its ``$schema`` wins over ``dialect``, its ``$id`` over ``document``."""
    dialect = dialect_of(schema, dialect)
    return Node(schema, dialect, document=document, base_uri=_base_uri(schema, dialect, document))


def child(parent: Node, path: tuple[str | int, ...], schema: Schema, keyword: str | None) -> Node:
    """The node of a subschema of ``parent``, found at ``path`` from there."""
    dialect, base_uri = parent.dialect, parent.base_uri
    if isinstance(schema, dict) and ("$id" in schema or "id" in schema):
        dialect = dialect_of(schema, dialect)
        base_uri = _base_uri(schema, dialect, base_uri)
    return Node(schema, dialect, parent, path, keyword, parent.document, base_uri)


def children(node: Node) -> Iterator[Node]:
    """The subschemas directly inside a schema, in document order."""
    known = KEYWORDS[node.dialect]
    for name, value in node.keywords.items():
        if (holds := known[name].holds) is not Holds.NONE:
            for path, schema in _held(name, value, holds):
                yield child(node, path, schema, name)


def walk(schema: Schema, dialect: Dialect = Dialect.DRAFT_2020_12) -> Iterator[Node]:
    """Every subschema of a document once, the root first, each before its own subschemas, in document order.

    Definitions are included whether anything refers to them or not (`structout.schema.references.reachable` tells).
    ``const``, ``enum``, ``default``, ``examples`` and unknown keywords hold data, and nothing in there is a subschema.

    Args:
        schema: a schema as `json.loads` makes it; it must not change meanwhile.
        dialect: for a schema without ``$schema``.
    """
    yield from walk_from(root(schema, dialect))


def walk_from(start: Node) -> Iterator[Node]:
    """``start`` and every subschema inside it, in the order of `walk`."""
    yield start
    stack = [children(start)]
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
        else:
            yield node
            stack.append(children(node))


def child_at(node: Node, tokens: tuple[str, ...]) -> tuple[Node, tuple[str, ...]] | None:
    """The child that the first tokens of a pointer from ``node`` lead to, and the tokens after it, if they do."""
    keywords = node.keywords
    if tokens[0] not in keywords:
        return None
    value, holds = keywords[tokens[0]], KEYWORDS[node.dialect][tokens[0]].holds
    path: tuple[str | int, ...] = tokens[:1]
    if holds in (Holds.MAP, Holds.LIST) or (holds is Holds.EITHER and isinstance(value, list)):
        match json_pointer.step(value, tokens[1]) if len(tokens) > 1 else Err("too short"):
            case Ok((key, value)):
                path = (tokens[0], key)
            case Err():
                return None
    if holds is Holds.NONE or not is_schema(value):
        return None
    return child(node, path, value, tokens[0]), tokens[len(path) :]


def _held(name: str, value: Any, holds: Holds) -> Iterator[tuple[tuple[str | int, ...], Schema]]:
    match holds, value:
        case ((Holds.VALUE | Holds.EITHER), dict() | bool()):
            yield (name,), value
        case ((Holds.LIST | Holds.EITHER), list()):
            yield from (((name, index), item) for index, item in enumerate(value) if is_schema(item))
        case Holds.MAP, dict():
            yield from (((name, key), item) for key, item in value.items() if is_schema(item))
        case _:
            pass


def _base_uri(schema: Schema, dialect: Dialect, base_uri: str) -> str:
    """The base URI inside a schema that stands where ``base_uri`` holds."""
    if isinstance(schema, bool) or ("$ref" in schema and dialect in REF_SUPPRESSES_SIBLINGS):
        return base_uri
    identifier = schema.get(ID_KEYWORD[dialect])
    return join_uri(base_uri, identifier).partition("#")[0] if isinstance(identifier, str) else base_uri


def join_uri(base: str, reference: str) -> str:
    """RFC 3986 resolution; what is no URI at all stays as it is.

    Unlike `urllib.parse.urljoin` it keeps a base such as ``urn:...`` for a reference that is a mere fragment.
    """
    if reference.startswith("#"):
        return base + reference
    try:
        return urllib.parse.urljoin(base, reference)
    except ValueError:
        return reference
