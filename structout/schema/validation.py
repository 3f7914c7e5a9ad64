"""Reference validation: which schemas are schemas, and which texts are valid under them, by jsonschema-rs.

It runs in this process and has no time limit: a valid schema can take exponential time. What it could crash on (deep
nesting, long chains of references) is refused beforehand, by limits that the error names.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from structout.errors import ErrorKind, GrammarError
from structout.parsing.nesting import Syntax, nesting_above
from structout.result import Err, Ok, Result
from structout.schema import pointer as json_pointer
from structout.schema.diagnosis import bad_keyword, bad_reference, brief, unknown_dialect
from structout.schema.keywords import DIALECTS
from structout.schema.loading import MAX_DEPTH, load_registry, load_schema, parse_json
from structout.schema.recursion import in_place_depth
from structout.schema.references import ReferenceIndex
from structout.schema.walk import Node, Schema, root
from structout.spec import Dialect, FormatMode, JsonSchema

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

MAX_IN_PLACE_DEPTH: Final = 100
"""Subschemas that may apply to one part of an instance, each because of the one before. Schemas in the wild need 10."""

_MAX_FRAMES: Final = 10_000
"""The same times the nesting of the instance. jsonschema-rs overflows 8 MiB of stack at about twice as many."""

_SHALLOW: Final = min(MAX_IN_PLACE_DEPTH, _MAX_FRAMES // MAX_DEPTH)
"""In-place depth up to which nothing is limited by it."""

_SIGNS_OF_REFERENCES: Final = ('ef"', "\\")
"""One of these is in every text with a ``$ref``, ``$dynamicRef`` or ``$recursiveRef``: the end, or an escape."""

_BEYOND_METASCHEMAS: Final = ("$", "attern", "\\")
"""One of these is in every text with a reference, an identifier or a regular expression, or they are escaped."""


@attrs.frozen
class ReferenceValidator:
    """Judges JSON texts under one schema. Made by `reference_validator`; may be shared between threads.

    A text has to be JSON by RFC 8259 (no ``NaN``). Numbers are taken exactly. Of an object's repeated key the last
    value counts. An escaped surrogate without its other half is read as U+FFFD. A text with more than ``max_depth``
    arrays and objects around one another cannot be checked and counts as invalid. ``pattern`` has the meaning of ECMA
    262; a match that would take more than a million steps of backtracking counts as none.
    """

    _validator: "Validator" = attrs.field(repr=False)
    max_depth: int

    def is_valid(self, text: str) -> bool:
        """Whether ``text`` is JSON and an instance of the schema."""
        match self._parse(text):
            case Ok(value):
                return self._validator.is_valid(value)
            case Err():
                return False

    def errors(self, text: str) -> list[tuple[str, str]]:
        """What is wrong with ``text``: pointers into it, with messages; empty if it is valid."""
        match self._parse(text):
            case Ok(value):
                found = self._validator.iter_errors(value)
                paths = ((json_pointer.with_empty_names(value, error.instance_path), error) for error in found)
                return [(json_pointer.join("", *path), brief(error.message)) for path, error in paths]
            case Err(message):
                return [("", message)]

    def violations(self, text: str) -> list[tuple[str | int, ...]]:
        """What ``text`` violates: the keywords, names and indices that lead to it from the schema's root, through
        references; empty if it is valid. The path of what is not JSON is empty."""
        match self._parse(text):
            case Ok(value):
                return [tuple(error.evaluation_path) for error in self._validator.iter_errors(value)]
            case Err():
                return [()]

    def _parse(self, text: str) -> Result[Any, str]:
        if nesting_above(self.max_depth, text, Syntax.JSON):
            return Err(f"nested more than {self.max_depth} deep, which is too deep to be checked")
        try:
            return Ok(parse_json(text, exact=True))
        except ValueError as error:
            return Err(f"not JSON: {error}")


def check_schema(spec: JsonSchema) -> GrammarError | None:
    """What is wrong with a spec's schema, whatever the backend; None if nothing is.

    INVALID_SPEC, with a pointer into the schema, for what is not JSON, what its dialect's metaschema refuses, a
    ``pattern`` that is no regular expression, a reference that leads nowhere (nothing is ever fetched: it has to be in
    the schema or in ``spec.registry``), and a schema that applies to an instance because of itself. TOO_COMPLEX over
    `structout.schema.loading.MAX_DEPTH` and `MAX_IN_PLACE_DEPTH`.
    """
    match load_schema(spec, exact=True):
        case Err(error):
            return error
        case Ok(schema):
            built = None if _is_plainly_valid(spec, schema) else _validator(spec, schema)
            return built.error if isinstance(built, Err) else None


def reference_validator(spec: JsonSchema) -> Result[ReferenceValidator, GrammarError]:
    """The validator of a spec's schema, under its dialect, format mode and registry; errors as in `check_schema`."""
    return load_schema(spec, exact=True).and_then(lambda schema: _validator(spec, schema))


def _validator(spec: JsonSchema, schema: Schema) -> Result[ReferenceValidator, GrammarError]:
    return load_registry(spec, exact=True).and_then(
        lambda registry: _guarded(spec, ReferenceIndex(root(schema, spec.dialect), registry, spec.dialect))
    )


def _is_plainly_valid(spec: JsonSchema, schema: Schema) -> bool:
    """Whether a schema is valid as far as its metaschema says, and has nothing in it of which that does not say all:
    references, identifiers, regular expressions. In a quarter of the time that building a validator takes."""
    import jsonschema_rs

    if spec.dialect is not Dialect.DRAFT_2020_12 or any(sign in spec.text for sign in _BEYOND_METASCHEMAS):
        return False
    return not spec.registry and _is_shallow(spec) and jsonschema_rs.meta.is_valid(schema)


def _guarded(spec: JsonSchema, index: ReferenceIndex) -> Result[ReferenceValidator, GrammarError]:
    if error := unknown_dialect(index):
        return Err(error)
    if _is_shallow(spec):
        return _build(spec, index).map(lambda validator: ReferenceValidator(validator, MAX_DEPTH))
    match in_place_depth(index, MAX_IN_PLACE_DEPTH):
        case Err(node):
            return Err(_circular(node.location))
        case Ok(depth) if depth > MAX_IN_PLACE_DEPTH:
            return Err(_TOO_LONG)
        case Ok(depth):
            max_depth = min(MAX_DEPTH, _MAX_FRAMES // depth)
            return _build(spec, index).map(lambda validator: ReferenceValidator(validator, max_depth))


def _is_shallow(spec: JsonSchema) -> bool:
    """Whether a look at the text shows that no more than `_SHALLOW` subschemas apply in place: it has no references,
    and is not nested more deeply."""
    if spec.registry or any(sign in spec.text for sign in _SIGNS_OF_REFERENCES):
        return False
    return nesting_above(_SHALLOW, spec.text, Syntax.JSON) is None


def _circular(pointer: str) -> GrammarError:
    return GrammarError(
        kind=ErrorKind.INVALID_SPEC,
        message="This schema applies to a value because it applies to that value: what it means is undefined.",
        pointer=pointer,
        hint="break the circle of references",
    )


_TOO_LONG: Final = GrammarError(
    kind=ErrorKind.TOO_COMPLEX,
    message=f"More than {MAX_IN_PLACE_DEPTH} subschemas apply to one value, each because of the one before.",
    hint="shorten the chains of $ref and allOf",
)


def _build(spec: JsonSchema, index: ReferenceIndex) -> Result["Validator", GrammarError]:
    """The validator. Documents that the schema refers to are built first, so that an error in one is found there."""
    used = sorted(index.used_documents())
    built: Result[Validator, GrammarError]
    for uri in (*used, ""):
        built = _build_document(spec, index, used, uri)
        match built:
            case Err():
                break
    return built


def _build_document(
    spec: JsonSchema, index: ReferenceIndex, used: Sequence[str], uri: str
) -> Result["Validator", GrammarError]:
    import jsonschema_rs

    try:
        registry = [(name, index.roots[name].schema) for name in used]
        return Ok(_native_validator(spec, index.roots[uri], registry))
    except jsonschema_rs.ValidationError as error:
        if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Referencing):
            return Err(bad_reference(index, error.message))
        return Err(bad_keyword(index.roots[uri], error.instance_path, _reason(error)))
    except ValueError as error:
        return Err(bad_reference(index, str(error)))


def _reason(error: "ValidationError") -> str | None:
    """The validator's message, unless all it says is which part of the metaschema did not match."""
    import jsonschema_rs

    kinds = jsonschema_rs.ValidationErrorKind
    return None if isinstance(error.kind, kinds.AnyOf | kinds.OneOfNotValid) else error.message


def _native_validator(spec: JsonSchema, document: Node, registry: Sequence[tuple[str, Schema]]) -> "Validator":
    import jsonschema_rs

    options: dict[str, Any] = {"validate_formats": spec.format_mode is FormatMode.ASSERT, "offline": True}
    if document.document:
        options["base_uri"] = document.document
    if registry:
        options["registry"] = jsonschema_rs.Registry(registry, draft=_draft(spec.dialect))
    if document.dialect in (Dialect.DRAFT_6, Dialect.DRAFT_7):
        options["keywords"] = {"contentEncoding": _Annotation, "contentMediaType": _Annotation}
    if isinstance(document.schema, dict) and "$schema" in document.schema:
        return jsonschema_rs.validator_for(document.schema, **options)
    return _validator_class(document.dialect)(document.schema, **options)


class _Annotation:
    """A keyword that restricts nothing, in place of what jsonschema-rs checks although draft 7 leaves it open."""

    def __init__(self, _parent_schema: dict[str, Any], _value: Any, _schema_path: list[str | int]) -> None:
        pass

    def validate(self, _instance: Any) -> None:
        pass


def _draft(dialect: Dialect) -> int:
    import jsonschema_rs as rs

    numbers = (rs.Draft4, rs.Draft6, rs.Draft7, rs.Draft201909, rs.Draft202012)
    return dict(zip(DIALECTS, numbers, strict=True))[dialect]


def _validator_class(dialect: Dialect) -> "type[Validator]":
    import jsonschema_rs as rs

    classes = (
        rs.Draft4Validator,
        rs.Draft6Validator,
        rs.Draft7Validator,
        rs.Draft201909Validator,
        rs.Draft202012Validator,
    )
    return dict(zip(DIALECTS, classes, strict=True))[dialect]
