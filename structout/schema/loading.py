"""From a spec's texts to JSON values, strictly, with errors for what is not JSON, not a schema or nested too deeply."""

import json
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Never

from structout.errors import ErrorKind, GrammarError
from structout.parsing.nesting import Syntax, nesting_above
from structout.result import Err, Ok, Result
from structout.schema.walk import Schema, is_schema
from structout.spec import JsonSchema

MAX_DEPTH: Final = 255
"""Nesting of arrays and objects up to which schemas are read. Parsers and validators recurse, and this is where the
first of them (jsonschema-rs 0.61) gives up."""

# Up to here Python converts integers under every setting of its own limit.
_MAX_INT_DIGITS: Final = 640
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATES: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair
    r"|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r"|\\.",
    re.DOTALL,
)


def parse_json(text: str, *, exact: bool = False) -> Any:
    """The value of a text that is JSON by RFC 8259; of a key that an object has twice the last value counts.

    Args:
        text: at most `MAX_DEPTH` deep; else it may raise RecursionError.
        exact: for validation: a number that no float or, by its length, no int is sure to hold becomes a
            `decimal.Decimal`, and an escaped surrogate without its other half U+FFFD.

    Raises:
        ValueError: it is not JSON (``NaN`` and ``Infinity`` are not), an integer has too many digits for `int`, or the
            exponent of a number has too many for `decimal.Decimal`.
    """
    if not exact:
        return _decode(_DECODER, text)
    if not text.isascii() and _SURROGATE.search(text):
        raise ValueError("it holds half a surrogate pair, which no UTF-8 text can")
    return _decode(_EXACT_DECODER, _ESCAPED_SURROGATES.sub(_paired, text) if "\\" in text else text)


def _decode(decoder: json.JSONDecoder, text: str) -> Any:
    if text.startswith("\ufeff"):
        raise json.JSONDecodeError("Unexpected UTF-8 BOM (decode using utf-8-sig)", text, 0)
    return decoder.decode(text)


def _refuse(name: str) -> Never:
    raise ValueError(f"{name} is no JSON value")


def _int(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        raise ValueError("an integer has too many digits") from None


def _exact_int(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= _MAX_INT_DIGITS else Decimal(digits)


def _decimal(number: str) -> Decimal:
    try:
        return Decimal(number)
    except InvalidOperation:
        raise ValueError("a number's exponent is too large") from None


def _paired(found: re.Match[str]) -> str:
    return r"\ufffd" if found["lone"] else found[0]


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse, parse_int=_int)
_EXACT_DECODER: Final = json.JSONDecoder(parse_constant=_refuse, parse_float=_decimal, parse_int=_exact_int)


def load_schema(spec: JsonSchema, *, exact: bool = False) -> Result[Schema, GrammarError]:
    """The schema of a spec as a fresh Python value; ``exact`` as in `parse_json`."""
    return _load(spec.text, "schema", exact)


def load_registry(spec: JsonSchema, *, exact: bool = False) -> Result[Mapping[str, Schema], GrammarError]:
    """The documents of a spec's registry, by URI; ``exact`` as in `parse_json`."""
    documents: dict[str, Schema] = {}
    for uri, text in spec.registry:
        match _load(text, f"registry's schema {uri!r}", exact):
            case Err() as error:
                return error
            case Ok(schema):
                documents[uri] = schema
    return Ok(documents)


def _load(text: str, what: str, exact: bool) -> Result[Schema, GrammarError]:
    if nesting_above(MAX_DEPTH, text, Syntax.JSON):
        message = f"The {what} is nested more than {MAX_DEPTH} deep."
        return Err(GrammarError(kind=ErrorKind.TOO_COMPLEX, message=message, hint="name inner parts in $defs"))
    try:
        value = parse_json(text, exact=exact)
    except json.JSONDecodeError as error:
        message = f"The {what} is not JSON: {error.msg}."
        return Err(GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, offset=error.pos))
    except ValueError as error:
        message = f"The {what} cannot be read: {error}."
        return Err(GrammarError(kind=ErrorKind.INVALID_SPEC, message=message))
    if not is_schema(value):
        message = f"The {what} is neither a JSON object nor true or false."
        return Err(GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, pointer=""))
    return Ok(value)
