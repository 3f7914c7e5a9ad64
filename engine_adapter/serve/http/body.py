"""Reading a body: bytes, JSON, fields of the right types; or what is wrong with it and where."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs
from pydantic import BaseModel, ValidationError

from engine_adapter.serve.http.fields import refused_field
from structout.errors import ErrorKind, GrammarError
from structout.parsing.fields import CARRIERS
from structout.parsing.json_text import read_json
from structout.parsing.limits import SpecLimits
from structout.parsing.problems import child, describe, quote
from structout.result import Err, Ok, Result

MAX_BODY_BYTES: Final = 4 * 2**20
"""Most bytes of a request's body. A constraint may have a quarter of that, and the token ids of embeddings take half of
it; reading it takes a second or two."""

MAX_FIELDS: Final = 128
"""Most fields of a request, those in its carriers included: each that is not known is compared with those that are."""

_LIMITS: Final = SpecLimits(max_text_bytes=MAX_BODY_BYTES, max_depth=96)

_OPEN: Final = (["type"], ["verbosity"])
"""Fields that have more values in the APIs whose requests are read here, and new ones now and then: one that is not
known is valid, but not supported."""

M = TypeVar("M", bound=BaseModel)


def read_body(body: bytes) -> Result[dict[str, Any], GrammarError]:
    """The request as a JSON object."""
    if not body.strip():
        return Err(attrs.evolve(_invalid("the body is empty", ""), hint="send a JSON object"))
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as exc:
        return Err(_invalid(f"the body is not UTF-8 at byte {exc.start}", ""))
    return read_json(text, what="the body", limits=_LIMITS, pointer="").and_then(lambda read: _object(read.value))


def _object(value: object) -> Result[dict[str, Any], GrammarError]:
    if isinstance(value, dict):
        return Ok(value)
    return Err(_invalid(f"the body must be an object, not {describe(value)}", ""))


def read_fields(body: Mapping[str, Any], model: type[M]) -> Result[M, GrammarError]:
    """The fields that ``model`` knows, with their types checked; an error if another would change the answer.

    Members of `structout.parsing.fields.CARRIERS` count as fields of the request where it has none of that name.
    """
    fields = flattened(body)
    if len(fields) > MAX_FIELDS:
        message = f"the request has {len(fields):,} fields; at most {MAX_FIELDS} are allowed"
        return Err(GrammarError(kind=ErrorKind.TOO_COMPLEX, message=message, pointer=""))
    if (error := refused_field(fields, tuple(model.model_fields))) is not None:
        return Err(error)
    return validated(fields, model)


def validated(fields: Mapping[str, Any], model: type[M]) -> Result[M, GrammarError]:
    """The fields that ``model`` knows, with their types checked."""
    try:
        return Ok(model.model_validate(fields))
    except ValidationError as exc:
        return Err(_from_validation(exc, fields))


def flattened(body: Mapping[str, Any]) -> dict[str, Any]:
    carried = [carrier for name in CARRIERS if isinstance(carrier := body.get(name), Mapping)]
    return {name: value for layer in (*carried, body) for name, value in layer.items()}


def rooted(body: Mapping[str, Any], pointer: str) -> str:
    """A pointer into the `flattened` fields as one into the body: what a carrier brings stands in it."""
    field = "/" + pointer[1:].partition("/")[0]
    layers = [("", body), *((child("", name), body.get(name)) for name in reversed(CARRIERS))]
    for place, layer in layers:
        if pointer and isinstance(layer, Mapping) and field in (child("", name) for name in layer):
            return place + pointer
    return pointer


def _from_validation(exc: ValidationError, fields: Mapping[str, Any]) -> GrammarError:
    """The first thing that pydantic found, in our terms."""
    first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
    path = _path(first["loc"], fields)
    reason = first["msg"][:1].lower() + first["msg"][1:]
    if first["type"] == "missing":
        return _invalid(f"{path[-1]} is missing", child("", *path))
    if first["type"] == "literal_error" and path[-1:] in _OPEN and isinstance(value := _value(fields, path), str):
        message = f"{'.'.join(map(str, path))}: {quote(value)} is not supported"
        hint = reason.replace("input should be", "it can be")
        return _error(ErrorKind.UNSUPPORTED, message, child("", *path), hint)
    where = ".".join(map(str, path)) or "the request"
    return _invalid(f"{where}: {reason}", child("", *path))


def _path(loc: Sequence[str | int], fields: Mapping[str, Any]) -> list[str | int]:
    """The part of pydantic's location that leads through the request: between its steps are names of types."""
    path: list[str | int] = []
    here: Any = fields
    for index, step in enumerate(loc):
        match here, step:
            case (dict(), str()) if step in here:
                here = here[step]
            case list(), int():
                here = here[step]
            case dict(), str() if index == len(loc) - 1:
                pass  # what is missing
            case _:
                continue
        path.append(step)
    return path


def _value(fields: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        fields = fields[step]
    return fields


def _invalid(message: str, pointer: str) -> GrammarError:
    return _error(ErrorKind.INVALID_SPEC, message, pointer)


def _error(kind: ErrorKind, message: str, pointer: str, hint: str | None = None) -> GrammarError:
    keyword = pointer.rpartition("/")[2] or None
    return GrammarError(kind=kind, message=message, pointer=pointer, keyword=keyword, hint=hint)
