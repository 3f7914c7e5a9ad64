"""A whole request: the one constraint in it, whatever dialect it is written in."""

import functools
from collections.abc import Mapping
from typing import Any

import attrs

from structout.errors import GrammarError
from structout.parsing import vllm
from structout.parsing.fields import CARRIERS, KNOWN_FIELDS, WHOLE_FIELDS
from structout.parsing.limits import DEFAULT_LIMITS, SpecLimits
from structout.parsing.loose import placed_structured_output
from structout.parsing.openai import placed_response_format
from structout.parsing.places import Placed, value_of
from structout.parsing.problems import child, closest, describe, invalid, quote, quote_all, too_complex
from structout.parsing.tools import placed_tools
from structout.result import Err, Ok, Result
from structout.spec import GrammarSpec

_CUTOFF = 0.75
"""How alike (`difflib`) an unknown name has to be to a known one to be taken for it misspelt."""


@attrs.frozen
class _Field:
    """A top-level field that is not null: of the request itself, or of a carrier in it."""

    name: str
    value: object
    pointer: str
    siblings: Mapping[str, Any]

    @property
    def label(self) -> str:
        return self.pointer[1:].replace("/", ".")


def parse_request(
    params: Mapping[str, Any], *, limits: SpecLimits = DEFAULT_LIMITS
) -> Result[GrammarSpec | None, GrammarError]:
    """The constraint in a body for Chat Completions, Completions or Responses, or in SGLang's sampling parameters.

    `structout.parsing.fields` lists the fields it looks at; null counts as left out. Two constraints at the same time
    are an error, whatever they say, as is a name that resembles a constraint's; other fields are not looked at. Free
    text is None: no constraint, ``{"type": "text"}``, or a tool choice that leaves the model free.

    Options in ``structured_outputs`` apply to the constraint wherever it stands.
    """
    return placed_request(params, limits=limits).map(value_of)


def placed_request(
    params: Mapping[str, Any], *, limits: SpecLimits = DEFAULT_LIMITS
) -> Result[Placed[GrammarSpec] | None, GrammarError]:
    """`parse_request`, and where in the request the constraint stands: errors that come of it later, whose pointers
    lead into the spec, are told with `Place.of`."""
    return _fields(params, limits).and_then(lambda fields: _parse(fields, limits))


def requested_backend(params: Mapping[str, Any]) -> Result[str | None, GrammarError]:
    """The id of the backend that a request names in ``structured_outputs.backend`` (or, for old clients of vLLM, in
    ``guided_decoding_backend``); None if it leaves the choice. Whether there is such a backend is not looked at."""
    return placed_backend(params).map(value_of)


def placed_backend(params: Mapping[str, Any]) -> Result[Placed[str] | None, GrammarError]:
    """`requested_backend`, and where in the request it is named."""
    return _fields(params, DEFAULT_LIMITS).and_then(_requested_backend)


def _requested_backend(fields: list[_Field]) -> Result[Placed[str] | None, GrammarError]:
    requested: dict[str, Placed[str]] = {}
    for field in fields:
        match _backend_in(field):
            case Err() as failed:
                return failed
            case Ok(Placed(backend) as placed):
                requested[backend] = placed
            case Ok():
                pass
    if len(requested) > 1:
        message = f"the request names more than one backend: {quote_all(list(requested), 'and')}"
        last = list(requested.values())[-1].place.pointer
        return invalid(message, pointer=last, keyword=last.rpartition("/")[2], hint="Keep one of them")
    return Ok(next(iter(requested.values()), None))


def _backend_in(field: _Field) -> Result[Placed[str] | None, GrammarError]:
    if field.name == "structured_outputs":
        return vllm.placed_backend_of(field.value, pointer=field.pointer)
    if field.name == "guided_decoding_backend":
        return vllm.placed_backend(field.value, pointer=field.pointer)
    return Ok(None)


def _fields(params: object, limits: SpecLimits) -> Result[list[_Field], GrammarError]:
    """The known fields of a request, in its order, after a check that no other looks like one of them."""
    match _layers(params, limits):
        case Err() as failed:
            return failed
        case Ok(layers):
            pass
    fields: list[_Field] = []
    for pointer, layer in layers:
        for name, value in layer.items():
            if value is None or not isinstance(name, str):
                continue
            if name in KNOWN_FIELDS:
                fields.append(_Field(name, value, child(pointer, name), layer))
            elif name == "text" and isinstance(value, Mapping) and value.get("format") is not None:
                fields.append(_Field("response_format", value["format"], child(pointer, name, "format"), layer))
            elif (misspelt := _misspelt(name, pointer)) is not None:
                return misspelt
    return Ok(fields)


def _layers(params: object, limits: SpecLimits) -> Result[list[tuple[str, Mapping[str, Any]]], GrammarError]:
    """The request and the carriers in it, each with its pointer."""
    if not isinstance(params, Mapping):
        return invalid(f"the request must be an object, not {describe(params)}", pointer="")
    layers: list[tuple[str, Mapping[str, Any]]] = [("", params)]
    for name in CARRIERS:
        carrier = params.get(name)
        if isinstance(carrier, Mapping):
            layers.append((child("", name), carrier))
        elif carrier is not None:
            message = f"{name} must be an object, not {describe(carrier)}"
            return invalid(message, pointer=child("", name), keyword=name)
    for pointer, layer in layers:
        if len(layer) > limits.max_fields:
            found = f"the request has {len(layer):,} fields"
            return too_complex(found, "max_fields", limits.max_fields, pointer=pointer)
    return Ok(layers)


def _misspelt(name: str, pointer: str) -> Err[GrammarError] | None:
    meant = closest(name, KNOWN_FIELDS, _CUTOFF)
    if meant is None and not name.startswith("guided_"):
        return None
    message = f"the request has no field {quote(name)}" + (f"; did you mean {quote(meant)}?" if meant else "")
    hint = f"Fields for a constraint are {quote_all(KNOWN_FIELDS, 'and')}"
    return invalid(message, pointer=child(pointer, name), keyword=name, hint=hint)


def _parse(fields: list[_Field], limits: SpecLimits) -> Result[Placed[GrammarSpec] | None, GrammarError]:
    found: list[tuple[_Field, Placed[GrammarSpec]]] = []
    for field in fields:
        match _constraint_in(field, limits):
            case Err() as failed:
                return failed
            case Ok(placed) if placed is not None:
                found.append((field, placed))
            case Ok():
                pass
    match found:
        case []:
            return _unconstrained(fields)
        case [(_, placed)]:
            return _with_options(placed, fields)
        case _:
            labels = [field.label for field, _ in found]
            message = f"the request has {len(found)} constraints, in {quote_all(labels, 'and')}, and can have one"
            last = found[-1][0]
            return invalid(message, pointer=last.pointer, keyword=last.name, hint="Keep one of them")


def _constraint_in(field: _Field, limits: SpecLimits) -> Result[Placed[GrammarSpec] | None, GrammarError]:
    match field.name:
        case "response_format":
            return placed_response_format(field.value, limits=limits, pointer=field.pointer)
        case "structured_output":
            return placed_structured_output(field.value, limits=limits, pointer=field.pointer)
        case "tool_choice":
            return _forced_call(field, limits)
        case "structured_outputs":
            return vllm.placed_constraint(field.value, limits=limits, pointer=field.pointer)
        case name if name in WHOLE_FIELDS:
            return WHOLE_FIELDS[name](field.value, limits=limits, pointer=field.pointer)
        case _:
            return Ok(None)


def _forced_call(field: _Field, limits: SpecLimits) -> Result[Placed[GrammarSpec] | None, GrammarError]:
    return placed_tools(
        field.siblings.get("tools"),
        field.value,
        parallel_tool_calls=field.siblings.get("parallel_tool_calls"),
        limits=limits,
        pointer=field.pointer.removesuffix("/tool_choice"),
    )


def _unconstrained(fields: list[_Field]) -> Result[None, GrammarError]:
    for field in fields:
        if field.name == "structured_outputs":
            return vllm.only_options(field.pointer)
    return Ok(None)


def _with_options(placed: Placed[GrammarSpec], fields: list[_Field]) -> Result[Placed[GrammarSpec], GrammarError]:
    spec = placed.value
    for field in fields:
        match _options_in(field).and_then(functools.partial(vllm.Options.apply, spec=spec, pointer=field.pointer)):
            case Err() as failed:
                return failed
            case Ok(changed):
                spec = changed
    return Ok(Placed(spec, placed.place))


def _options_in(field: _Field) -> Result[vllm.Options, GrammarError]:
    if field.name == "structured_outputs":
        return vllm.parse_options(field.value, pointer=field.pointer)
    if field.name == "guided_whitespace_pattern":
        return vllm.parse_whitespace_pattern(field.value, pointer=field.pointer)
    return Ok(vllm.Options())
