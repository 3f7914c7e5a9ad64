"""What a backend drops, as data: rules over keywords, applied to every schema that can take part in validation.

A plugin writes down what its backend is known to ignore::

    RULES = (
        Rule("not", "is ignored"),
        Rule("minLength", "is ignored next to pattern", when=beside("pattern")),
        Rule("uniqueItems", "is ignored", when=value_is(True)),
        Rule("multipleOf", "is ignored on numbers", when=type_allows("number")),
        *untyped("minimum", "maximum", reason="is ignored without type"),
    )

    def refusal_of(spec): return refusal(spec, RULES, backend="mine")        for `BackendInfo.refusal` and `compile`
    unenforced = findings(spec, RULES).unwrap()                              what a best-effort grammar lists
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import attrs

from structout.backend import Finding
from structout.errors import ErrorKind, GrammarError
from structout.result import Err, Ok, Result
from structout.schema.loading import load_registry, load_schema
from structout.schema.references import reachable
from structout.schema.walk import Node, Schema
from structout.spec import Dialect, FormatMode, JsonSchema, Policy

Condition: TypeAlias = Callable[[Node, str], bool]
"""Given the schema's node and the rule's keyword, which is one of ``node.keywords``: whether the rule applies."""


def always(_node: Node, _keyword: str) -> bool:
    """Wherever the keyword stands."""
    return True


@attrs.frozen
class Rule:
    """A keyword that a backend does not enforce.

    Attributes:
        keyword: where it is a keyword of the schema's dialect; elsewhere it is an annotation and no finding.
        reason: what becomes of it, as a phrase after its name: ``"is ignored next to pattern"``.
        when: on which of its occurrences.
    """

    keyword: str
    reason: str
    when: Condition = always


def beside(*keywords: str) -> Condition:
    """Where at least one of these keywords stands in the same schema."""
    return lambda node, _keyword: not node.keywords.keys().isdisjoint(keywords)


def without(*keywords: str) -> Condition:
    """Where none of these keywords stands in the same schema."""
    return lambda node, _keyword: node.keywords.keys().isdisjoint(keywords)


def value_is(*values: Any) -> Condition:
    """Where the keyword's value is one of these. As in JSON, ``True`` is not 1; 1.0 is."""

    def matches(node: Node, keyword: str) -> bool:
        found = node.keywords[keyword]
        return any(found == value and isinstance(found, bool) is isinstance(value, bool) for value in values)

    return matches


def value_matches(predicate: Callable[[Any], bool]) -> Condition:
    """Where ``predicate`` holds for the keyword's value. It gets whatever JSON is there, valid or not."""
    return lambda node, keyword: predicate(node.keywords[keyword])


def type_allows(*types: str) -> Condition:
    """Where an instance of one of these types could pass the schema's own ``type``: it names it, or there is none.

    ``"integer"`` is allowed by ``"number"``; ``"number"`` (any number) is not by ``"integer"``.
    """
    wanted = (*types, "number") if "integer" in types else types

    def allows(node: Node, _keyword: str) -> bool:
        declared = node.keywords.get("type")
        names = declared if isinstance(declared, list) else [declared]
        return declared is None or any(name in wanted for name in names)

    return allows


def below_root(node: Node, _keyword: str) -> bool:
    """Anywhere but in the root of a document: for ``$id`` and ``$schema``, which only there change nothing else."""
    return node.parent is not None


def all_of(*conditions: Condition) -> Condition:
    """Where every one of the conditions holds."""
    return lambda node, keyword: all(condition(node, keyword) for condition in conditions)


def untyped(*keywords: str, reason: str) -> tuple[Rule, ...]:
    """A rule for each of these keywords where the schema has no ``type`` beside it."""
    return tuple(Rule(keyword, reason, when=without("type")) for keyword in keywords)


def scan(
    schema: Schema,
    rules: Iterable[Rule],
    dialect: Dialect = Dialect.DRAFT_2020_12,
    *,
    registry: Mapping[str, Schema] | None = None,
) -> tuple[Finding, ...]:
    """What the rules find in a schema and in all that it refers to, at most one finding per rule and place.

    Definitions that nothing refers to cannot matter and are left out. A finding in a document of the registry has that
    document's URI, ``#`` and the pointer as its pointer.

    Args:
        schema: as `json.loads` makes it.
        rules: see `Rule`.
        dialect: for documents without ``$schema``.
        registry: documents by URI that ``$ref`` may name.
    """
    by_keyword: dict[str, list[Rule]] = defaultdict(list)
    for rule in rules:
        by_keyword[rule.keyword].append(rule)
    return tuple(
        Finding(node.location, keyword, rule.reason)
        for node in reachable(schema, dialect, registry=registry or {})
        for keyword in node.keywords
        for rule in by_keyword.get(keyword, ())
        if rule.when(node, keyword)
    )


def findings(spec: JsonSchema, rules: Iterable[Rule]) -> Result[tuple[Finding, ...], GrammarError]:
    """`scan` of a spec, with its dialect and registry; rules on ``format`` count only where it is asserted."""
    if spec.format_mode is FormatMode.ANNOTATE:
        rules = [rule for rule in rules if rule.keyword != "format"]
    return load_schema(spec).and_then(
        lambda schema: load_registry(spec).map(
            lambda registry: scan(schema, rules, spec.dialect, registry=registry),
        )
    )


def refusal(spec: JsonSchema, rules: Iterable[Rule], *, backend: str) -> GrammarError | None:
    """The error with which ``backend`` refuses a spec that the rules have findings in; None if it need not.

    Under BEST_EFFORT findings are no reason to refuse: the compiled grammar lists them as unenforced.
    """
    match findings(spec, rules):
        case Err(error):
            return error
        case Ok(found) if found and spec.policy is not Policy.BEST_EFFORT:
            return _unsupported(found, backend)
        case _:
            return None


def _unsupported(found: tuple[Finding, ...], backend: str) -> GrammarError:
    first, *others = found
    more = f", and {len(others)} more such place{'s' if len(others) > 1 else ''}" if others else ""
    return GrammarError(
        kind=ErrorKind.UNSUPPORTED,
        message=f"{backend} does not enforce this schema: {first.keyword} {first.reason}{more}.",
        pointer=first.pointer,
        keyword=first.keyword,
        backend=backend,
        hint="use another backend, or ask for best_effort to have what is not enforced listed instead",
    )
