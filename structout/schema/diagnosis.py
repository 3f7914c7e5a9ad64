"""Errors about schemas that are none: where in the schema, which keyword, what to do."""

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from structout.errors import ErrorKind, GrammarError
from structout.result import Err, Ok
from structout.schema import pointer as json_pointer
from structout.schema.keywords import DIALECTS, known_dialect
from structout.schema.references import ReferenceIndex, references_in
from structout.schema.walk import Node, child_at, walk_from

_METASCHEMAS: Final = ("http://json-schema.org/", "https://json-schema.org/")
_MESSAGE_CHARACTERS: Final = 200


def brief(text: str) -> str:
    """A text for a message: its middle left out if it is long."""
    if len(text) <= _MESSAGE_CHARACTERS:
        return text
    half = _MESSAGE_CHARACTERS // 2 - 2
    return f"{text[:half]} ... {text[-half:]}"


def unknown_dialect(index: ReferenceIndex) -> GrammarError | None:
    """The error for a ``$schema`` that names neither a dialect we know nor a metaschema in the registry."""
    uri = index.roots[""].keywords.get("$schema")
    if not isinstance(uri, str) or known_dialect(uri) or uri in index.roots:
        return None
    return GrammarError(
        kind=ErrorKind.INVALID_SPEC,
        message=f"The dialect {brief(uri)!r} is not known.",
        pointer="/$schema",
        keyword="$schema",
        hint=f"use one of {', '.join(DIALECTS)}",
    )


def bad_keyword(start: Node, path: Sequence[str | int], reason: str | None) -> GrammarError:
    """The error for a value that the metaschema refuses.

    Args:
        start: root of the document that holds it.
        path: keys and indices that lead to it; empty keys may be left out.
        reason: what is wrong with it, as a sentence without a full stop; None for "it is not one of those allowed".
    """
    path = json_pointer.with_empty_names(start.schema, path)
    pointer = json_pointer.join("", *path)
    keyword = _keyword_at(start, tuple(str(token) for token in path))
    match json_pointer.resolve(start.schema, pointer):
        case Ok(value) if reason is None:
            reason = f"{json.dumps(value, default=str)} is not a value that {keyword or 'a schema'} can have"
        case _:
            pass
    return GrammarError(
        kind=ErrorKind.INVALID_SPEC,
        message=f"This is not a JSON Schema: {brief(reason or 'it does not match the metaschema')}.",
        pointer=f"{start.document}#{pointer}" if start.document else pointer,
        keyword=keyword,
        hint=f"correct it, or name the draft that it is written for in $schema; it was read as {start.dialect}",
    )


def _keyword_at(node: Node, tokens: tuple[str, ...]) -> str | None:
    """The keyword whose value holds the place that ``tokens`` lead to from ``node``; the innermost, if several do."""
    while tokens and (found := child_at(node, tokens)):
        node, tokens = found
    return tokens[0] if tokens else node.keyword


def bad_reference(index: ReferenceIndex, reason: str) -> GrammarError:
    """The error for a schema that refers to something that is not there: the first such place.

    Args:
        index: of the schema and its registry.
        reason: what is known of it, as a sentence without a full stop, in case the place cannot be found.
    """
    for pointer, keyword, problem in _dangling(index):
        return GrammarError(
            kind=ErrorKind.INVALID_SPEC,
            message=f"This reference leads nowhere: {brief(problem)}.",
            pointer=pointer,
            keyword=keyword,
            hint="add what it names to the schema or to the registry; nothing is fetched",
        )
    return GrammarError(kind=ErrorKind.INVALID_SPEC, message=f"A reference cannot be resolved: {brief(reason)}.")


def _dangling(index: ReferenceIndex) -> Iterator[tuple[str, str, str]]:
    """Location, keyword and problem of each reference that leads nowhere: those that matter first."""
    used = ("", *sorted(index.used_documents()))
    everywhere = chain.from_iterable(walk_from(index.roots[uri]) for uri in used)
    for node in chain(index.reachable(), everywhere):
        for keyword, reference in references_in(node):
            match index.resolve(node, reference):
                case Err(problem) if not reference.startswith(_METASCHEMAS):
                    yield json_pointer.join(node.location, keyword), keyword, problem
                case _:
                    pass
