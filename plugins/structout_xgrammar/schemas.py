"""JSON Schema specs: from the two tables of rules and the rewriting to what xgrammar gets."""

import json
from collections.abc import Sequence

from structout.backend import Finding
from structout.errors import ErrorKind, GrammarError
from structout.result import Err, Ok, Result
from structout.schema.loading import load_registry, load_schema
from structout.schema.references import ReferenceIndex
from structout.schema.scan import findings
from structout.schema.walk import Schema, children, root
from structout.spec import FormatMode, JsonObject, JsonSchema, Policy
from structout_xgrammar import narrowing, rules
from structout_xgrammar.automaton import Automaton
from structout_xgrammar.errors import BACKEND
from structout_xgrammar.prepare import prepare
from structout_xgrammar.reading import follower
from structout_xgrammar.sources import SchemaSource, Translation


def unenforced(spec: JsonSchema) -> Result[tuple[Finding, ...], GrammarError]:
    """What the table knows that is not enforced of a spec whose schema is valid."""
    return _index(spec).and_then(lambda index: findings(spec, rules.unenforced(spec, index)))


def narrowed(spec: JsonSchema) -> Result[tuple[Finding, ...], GrammarError]:
    """What the table knows that is left out of a spec's language."""
    return findings(spec, narrowing.narrowed(spec))


def translate_schema(spec: JsonSchema) -> Result[Translation, GrammarError]:
    """What xgrammar gets for a spec whose schema is valid."""
    automata: dict[str, Automaton] = {}
    match rewrite(spec, automata), narrowed(spec):
        case (Err() as error, _) | (_, Err() as error):
            return error
        case Ok((False, _)), Ok():
            message = "No value satisfies this schema: it is unsatisfiable."
            return Err(GrammarError(kind=ErrorKind.UNSATISFIABLE, message=message, pointer="", backend=BACKEND))
        case Ok((schema, left_out)), Ok(leaving_out):
            source = SchemaSource(json.dumps(schema), automata, spec.serialization, _is_simple(spec))
            return Ok(Translation(source, tuple(left_out), leaving_out))


def rewrite(spec: JsonSchema, automata: dict[str, Automaton]) -> Result[tuple[Schema, list[Finding]], GrammarError]:
    """The spec's schema as xgrammar gets it, and all that is not enforced of it; see `prepare` for ``automata``."""
    match unenforced(spec), _index(spec):
        case (Err() as error, _) | (_, Err() as error):
            return error
        case Ok(known), Ok(index):
            return _prepared(spec, index, automata).map(lambda found: (found[0], [*known, *found[1]]))


def _prepared(
    spec: JsonSchema, index: ReferenceIndex, automata: dict[str, Automaton]
) -> Result[tuple[Schema, Sequence[Finding]], GrammarError]:
    try:
        return Ok(
            prepare(
                index.roots[""],
                follower(index),
                automata,
                exact=spec.policy is Policy.EXACT,
                asserts_format=spec.format_mode is FormatMode.ASSERT,
            )
        )
    except RecursionError:
        message = "The schema is nested too deeply for xgrammar."
        return Err(GrammarError(kind=ErrorKind.TOO_COMPLEX, message=message, backend=BACKEND))


def translate_object(spec: JsonObject) -> Translation:
    return Translation(SchemaSource('{"type": "object"}', {}, spec.serialization, is_simple=True))


def _index(spec: JsonSchema) -> Result[ReferenceIndex, GrammarError]:
    return load_schema(spec).and_then(
        lambda schema: load_registry(spec).map(
            lambda registry: ReferenceIndex(root(schema, spec.dialect), registry, spec.dialect)
        )
    )


def _is_simple(spec: JsonSchema) -> bool:
    """Whether the schema is one of a single type without subschemas."""
    node = root(spec.schema(), spec.dialect)
    return isinstance(node.keywords.get("type"), str) and next(children(node), None) is None
