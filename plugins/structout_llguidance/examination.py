"""One walk over a schema, in which everything that has to be known of it is found out."""

import threading
import urllib.parse
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

import attrs

from structout.backend import Finding
from structout.errors import ErrorKind, GrammarError
from structout.grammar import refusal_of
from structout.result import Err, Ok, Result
from structout.schema import Node, Rule, Schema, reachable
from structout.schema.loading import load_registry, load_schema
from structout.spec import JsonSchema, Policy
from structout_llguidance.limits import MAX_SCHEMA_DEPTH, schema_depth
from structout_llguidance.rules import TOO_LARGE, UNREADABLE, rules_for


@attrs.frozen(eq=False)
class Examination:
    """A schema that llguidance may take, and what becomes of it there.

    Attributes:
        schema: a fresh value.
        nodes: all subschemas that can take part in validation.
        unenforced: what lets through more; empty unless the policy is BEST_EFFORT.
        narrowed: what lets through less.
    """

    schema: Schema
    nodes: Sequence[Node]
    unenforced: tuple[Finding, ...]
    narrowed: tuple[Finding, ...]


class _Ahead(threading.local):
    """What a thread has examined last, if it has not been used."""

    last: tuple[JsonSchema, Examination] | None = None


_ahead: Final = _Ahead()


def examine_ahead(spec: JsonSchema) -> Result[Examination, GrammarError]:
    """`examine`, for who only wants to know whether llguidance may take a schema: this thread is likely to compile it
    next, and does not examine it twice for that."""
    examined = examine(spec)
    _ahead.last = (spec, examined.value) if isinstance(examined, Ok) else None
    return examined


def examined_once(spec: JsonSchema) -> Result[Examination, GrammarError]:
    """What was examined ahead, to be used up; else `examine`."""
    ahead, _ahead.last = _ahead.last, None
    return Ok(ahead[1]) if ahead is not None and ahead[0] is spec else examine(spec)


def examine(spec: JsonSchema) -> Result[Examination, GrammarError]:
    """What llguidance makes of a schema, or why it cannot take it."""
    match load_schema(spec), load_registry(spec):
        case (Err() as error, _) | (_, Err() as error):
            return error
        case Ok(schema), Ok(registry):
            nodes = list(reachable(schema, spec.dialect, registry=registry))
            return _judged(spec, schema, nodes)


def _judged(spec: JsonSchema, schema: Schema, nodes: Sequence[Node]) -> Result[Examination, GrammarError]:
    rules = rules_for(spec, nodes)
    found = find(nodes, (*UNREADABLE, *TOO_LARGE, *rules.unenforced, *rules.narrowed))
    if unreadable := [*_elsewhere(nodes), *_by(UNREADABLE, found)]:
        return Err(_error(ErrorKind.UNSUPPORTED, unreadable[0]))
    if too_large := [*_too_deep(spec, schema, nodes), *_by(TOO_LARGE, found)]:
        return Err(_error(ErrorKind.TOO_COMPLEX, too_large[0]))
    unenforced = _by(rules.unenforced, found)
    if unenforced and spec.policy is not Policy.BEST_EFFORT:
        return Err(refusal_of(unenforced, spec.policy))
    return Ok(Examination(schema, nodes, unenforced, _by(rules.narrowed, found)))


def find(nodes: Iterable[Node], rules: Iterable[Rule]) -> Mapping[Rule, Sequence[Finding]]:
    """What each rule finds, by rule. Like `structout.schema.scan`, on subschemas that are at hand."""
    by_keyword: dict[str, list[Rule]] = defaultdict(list)
    for rule in rules:
        by_keyword[rule.keyword].append(rule)
    found: dict[Rule, list[Finding]] = defaultdict(list)
    for node in nodes:
        for keyword in node.keywords.keys() & by_keyword.keys():
            for rule in by_keyword[keyword]:
                if rule.when(node, keyword):
                    found[rule].append(Finding(node.location, keyword, rule.reason))
    return found


def _by(rules: Iterable[Rule], found: Mapping[Rule, Sequence[Finding]]) -> tuple[Finding, ...]:
    return tuple(chain.from_iterable(found.get(rule, ()) for rule in rules))


def _elsewhere(nodes: Iterable[Node]) -> list[Finding]:
    """Where the schema refers to other documents; the whole of it, if it names them by what they call themselves."""
    others = {node.document for node in nodes if node.document}
    if not others:
        return []
    places = [node.location for node in nodes if not node.document and _document_of_reference(node) in others]
    return [Finding(place, "$ref", "leads into another document") for place in places or [""]]


def _document_of_reference(node: Node) -> str:
    return urllib.parse.urljoin(node.base_uri, str(node.keywords.get("$ref", ""))).partition("#")[0]


def _too_deep(spec: JsonSchema, schema: Schema, nodes: Sequence[Node]) -> list[Finding]:
    """No schema is deeper than it has subschemas."""
    if len(nodes) <= MAX_SCHEMA_DEPTH or schema_depth(schema, spec.dialect) <= MAX_SCHEMA_DEPTH:
        return []
    return [Finding("", "$ref", f"makes chains of more than {MAX_SCHEMA_DEPTH} subschemas")]


def _error(kind: ErrorKind, first: Finding) -> GrammarError:
    message = f"{first.keyword!r} {first.reason}"
    return GrammarError(kind=kind, message=message, keyword=first.keyword, pointer=first.pointer)
