"""What ``$ref`` and its kin lead to, and so which subschemas can take part in validation. Nothing is ever fetched."""

import functools
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from structout.result import Err, Ok, Result
from structout.schema import pointer as json_pointer
from structout.schema.keywords import ID_KEYWORD
from structout.schema.walk import Node, Place, Schema, child, child_at, children, is_schema, join_uri, root, walk_from
from structout.spec import Dialect

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_UNAPPLIED: Final = frozenset({"$defs", "definitions", "contentSchema"})


def reachable(
    schema: Schema,
    dialect: Dialect = Dialect.DRAFT_2020_12,
    *,
    registry: Mapping[str, Schema] | None = None,
) -> Iterator[Node]:
    """The subschemas that can take part in validation, each once: those inside the root, then what is referred to.

    Unlike `structout.schema.walk.walk` it leaves out definitions that nothing reachable refers to, and follows
    references into other documents, and to places that only a reference makes schemas (``#/components/schemas/A``).
    References that lead nowhere are passed over. What a dynamic reference may mean is taken widely: every
    ``$dynamicAnchor`` of its name anywhere, and for ``$recursiveRef`` every ``$recursiveAnchor``.

    Args:
        schema: as `json.loads` makes it: a part that is shared as a Python object counts as one place.
        dialect: for documents without ``$schema``.
        registry: documents by URI.
    """
    return ReferenceIndex(root(schema, dialect), registry or {}, dialect).reachable()


def references_in(node: Node) -> Iterator[tuple[str, str]]:
    """The references that stand in a schema: keyword and URI reference."""
    for keyword in _REFERENCES:
        if isinstance(reference := node.keywords.get(keyword), str):
            yield keyword, reference


class ReferenceIndex:
    """A schema and a registry, and what the references in them lead to.

    Args:
        start: root node of the schema.
        registry: further documents by URI.
        dialect: for documents without ``$schema``.

    Attributes:
        roots: the documents' root nodes by URI; ``roots[""]`` is ``start``.
    """

    def __init__(self, start: Node, registry: Mapping[str, Schema], dialect: Dialect) -> None:
        others = {uri: root(document, dialect, document=uri) for uri, document in registry.items()}
        self.roots: dict[str, Node] = {"": start} | others
        self._named: dict[Place, tuple[Node, ...]] = {}

    @functools.cached_property
    def _names(self) -> "_Names":
        return _Names(self.roots.values())

    def resolve(self, node: Node, reference: str) -> Result[Node, str]:
        """The node that ``reference``, standing in ``node``, names, or why it names none."""
        uri, _, fragment = join_uri(node.base_uri, reference).partition("#")
        resource = self._names.resources.get(uri)
        if resource is None:
            return Err(f"there is no schema {uri!r} in the schema or the registry")
        return json_pointer.from_fragment(fragment).and_then(lambda name: self._resolve_in(resource, uri, name))

    def _resolve_in(self, resource: Node, uri: str, name: str) -> Result[Node, str]:
        if not name or name.startswith("/"):
            return json_pointer.split(name).and_then(lambda tokens: _descend(resource, tokens))
        if (uri, name) in self._names.anchors:
            return Ok(self._names.anchors[uri, name])
        return Err(f"there is no anchor {name!r} in the schema {uri!r}")

    def named(self, node: Node) -> tuple[Node, ...]:
        """What the references in ``node`` name."""
        if node.keywords.keys().isdisjoint(_REFERENCES):
            return ()
        if node.place not in self._named:
            self._named[node.place] = tuple(self._resolve_all(node))
        return self._named[node.place]

    def _resolve_all(self, node: Node) -> Iterator[Node]:
        for _, reference in references_in(node):
            match self.resolve(node, reference):
                case Ok(target):
                    yield target
                case Err():
                    pass

    def targets(self, node: Node) -> Iterator[Node]:
        """All that the references in ``node`` may mean: what they name and, for dynamic ones, see `reachable`."""
        yield from self.named(node)
        for keyword, reference in references_in(node):
            if keyword == "$dynamicRef":
                yield from self._names.dynamic.get(reference.partition("#")[2], ())
            if keyword == "$recursiveRef":
                yield from self._names.recursive

    def reachable(self) -> Iterator[Node]:
        """See the function `reachable`."""
        start = self.roots[""]
        pending, seen = deque([start]), {start.place}
        while pending:
            for node in _applied(pending.popleft(), seen):
                yield node
                pending.extend(_unseen(self.targets(node), seen))

    def used_documents(self) -> set[str]:
        """URIs of the documents that a validator may have to know: whatever any part of the schema refers to, what
        that refers to, and so on, and the metaschemas that ``$schema`` names."""
        if len(self.roots) == 1:
            return set()
        pending, used = [""], {""}
        while pending:
            start = self.roots[pending.pop()]
            named = {target.document for node in walk_from(start) for target in self.named(node)}
            metaschema = start.keywords.get("$schema")
            if isinstance(metaschema, str) and metaschema in self.roots:
                named.add(metaschema)
            fresh = named - used
            used |= fresh
            pending.extend(fresh)
        return used - {""}


class _Names:
    """What names schemas, in all documents: of two with the same name the first counts."""

    def __init__(self, documents: Iterable[Node]) -> None:
        self.resources: dict[str, Node] = {}
        self.anchors: dict[tuple[str, str], Node] = {}
        self.dynamic: dict[str, list[Node]] = defaultdict(list)
        self.recursive: list[Node] = []
        for document in documents:
            self.resources.setdefault(document.document.removesuffix("#") or document.base_uri, document)
            for node in walk_from(document):
                self._add(node)

    def _add(self, node: Node) -> None:
        keywords = node.keywords
        if isinstance(identifier := keywords.get(ID_KEYWORD[node.dialect]), str):
            self._add_identifier(node, identifier)
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := keywords.get(keyword), str):
                self.anchors.setdefault((node.base_uri, name), node)
        if isinstance(name := keywords.get("$dynamicAnchor"), str):
            self.dynamic[name].append(node)
        if keywords.get("$recursiveAnchor") is True:
            self.recursive.append(node)

    def _add_identifier(self, node: Node, identifier: str) -> None:
        """Up to draft 7 an ``$id`` may also be, or end with, what later became ``$anchor``."""
        if not identifier.startswith("#"):
            self.resources.setdefault(node.base_uri, node)
        if name := identifier.partition("#")[2]:
            self.anchors.setdefault((node.base_uri, name), node)


def _applied(start: Node, seen: set[Place]) -> Iterator[Node]:
    """``start`` and the subschemas in it that are applied without a reference, but for those seen before."""
    yield start
    stack = [children(start)]
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
        elif node.keyword not in _UNAPPLIED:
            for fresh in _unseen([node], seen):
                yield fresh
                stack.append(children(fresh))


def _unseen(nodes: Iterable[Node], seen: set[Place]) -> Iterator[Node]:
    for node in nodes:
        if node.place not in seen:
            seen.add(node.place)
            yield node


def _descend(node: Node, tokens: tuple[str, ...]) -> Result[Node, str]:
    """The node at a pointer's tokens from ``node``, through the schemas on the way as far as they are schemas."""
    while tokens and (found := child_at(node, tokens)):
        node, tokens = found
    return _jump(node, tokens) if tokens else Ok(node)


def _jump(node: Node, tokens: tuple[str, ...]) -> Result[Node, str]:
    """The node at a place that no keyword makes a schema."""
    value: object = node.schema
    path: list[str | int] = []
    for token in tokens:
        match json_pointer.step(value, token):
            case Err() as error:
                return error
            case Ok((key, value)):
                path.append(key)
    if not is_schema(value):
        return Err("it is neither an object nor a boolean")
    return Ok(child(node, tuple(path), value, None))
