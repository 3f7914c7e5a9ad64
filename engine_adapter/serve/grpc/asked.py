"""What both dialects ask of the engine, and what they share in reading a message: nothing here raises on any message.

An error's ``pointer`` names the field of the message that is at fault, as the message looks in JSON with the names of
the .proto file.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol

import attrs
from google.protobuf.message import Message

from engine_adapter.embedded.request import Request
from engine_adapter.outcome import Failed, Terminal, internal_error
from engine_adapter.sampling import SamplingParams
from engine_adapter.serve.places import Places
from engine_adapter.serve.served import unknown_model
from structout.errors import ErrorKind, GrammarError, reraise_users_interrupt
from structout.parsing import Placed
from structout.parsing.fields import STRUCTURED_OUTPUTS
from structout.parsing.limits import DEFAULT_LIMITS
from structout.parsing.problems import quote
from structout.result import Err, Ok, Result
from structout.spec import GrammarSpec
from structout.vocabulary import Vocabulary

MAX_SEQUENCES: Final = 128
"""Most answers to one request."""


class TextPrompts(Protocol):
    """Turns a prompt that is text into tokens, on any thread."""

    def of_text(self, text: str) -> Result[tuple[int, ...], GrammarError]:
        """The token ids of a text, or why it has too many."""
        ...


class Model(Protocol):
    """What reading a request needs to know of a model; `ServedModel` knows it."""

    @property
    def name(self) -> str:
        """What clients call it."""
        ...

    @property
    def vocabulary(self) -> Vocabulary:
        """Its tokens."""
        ...

    @property
    def prompts(self) -> TextPrompts:
        """Its tokenizer."""
        ...

    @property
    def max_len(self) -> int:
        """Most tokens of prompt and answer together."""
        ...


@attrs.frozen
class Asked:
    """A message as the engine takes it.

    Attributes:
        request: of one sample; `sampled` makes ``n`` of it.
        n: how many answers.
        places: where the message has what an error may be about.
    """

    request: Request
    n: int
    places: Places

    def judged(self, end: Terminal) -> Terminal:
        """An end as the client is told it: an error points into the message."""
        return Failed(self.places.located(end.error)) if isinstance(end, Failed) else end


@attrs.frozen
class Unsupported:
    """A field that nothing here serves, though it would change the answer.

    Attributes:
        path: the names of the fields on the way to it, with slashes between.
        hint: what to do about it.
        neutral: values that change nothing.
    """

    path: str
    hint: str
    neutral: tuple[object, ...] = ()


def unsupported(message: Message, table: Iterable[Unsupported]) -> GrammarError | None:
    """The first of the table's fields that is set in ``message``, as an error."""
    for each in table:
        value = _set_value(message, each.path)
        if value is not None and value not in each.neutral:
            return refusal(each.path, each.hint)
    return None


def refusal(path: str, hint: str) -> GrammarError:
    """UNSUPPORTED, for a field that is set."""
    name = path.rpartition("/")[2]
    message = f"{name} is not supported"
    return GrammarError(kind=ErrorKind.UNSUPPORTED, message=message, pointer=f"/{path}", keyword=name, hint=hint)


def _set_value(message: Message, path: str) -> Any | None:
    """The field's value; None if it is not there, or is a number, text or list that counts as left out."""
    *parents, name = path.split("/")
    for parent in parents:
        if not message.HasField(parent):
            return None
        message = getattr(message, parent)
    return next((value for field, value in message.ListFields() if field.name == name), None)


def invalid(message: str, path: str, hint: str | None = None) -> GrammarError:
    """INVALID_SPEC, for the field at ``path``; "" is the whole message."""
    pointer = f"/{path}" if path else ""
    return GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, pointer=pointer, hint=hint)


def sequences(number: int, path: str) -> Result[int, GrammarError]:
    """How many answers are asked for; 0 is one."""
    if number > MAX_SEQUENCES:
        return Err(invalid(f"{number} answers are asked for; there can be {MAX_SEQUENCES}", path))
    return Ok(max(number, 1))


def named_otherwise(name: str, model: Model) -> GrammarError | None:
    """The error of a message that names another model; the empty name is any."""
    if name in ("", model.name):
        return None
    return unknown_model(name, f"use {quote(model.name)}, or leave it out")


def encoded(text: str, model: Model, path: str) -> Result[tuple[int, ...], GrammarError]:
    """A prompt's tokens. What the tokenizer raises is an error of the engine."""
    if not text:
        return Err(invalid("the prompt is empty", path))
    try:
        match model.prompts.of_text(text):
            case Err(error):
                return Err(attrs.evolve(error, pointer=f"/{path}"))
            case Ok() as tokens:
                return tokens
    except BaseException as exc:
        reraise_users_interrupt(exc)
        return Err(internal_error(exc))


def sampling(pointers: Mapping[str, str], **fields: object) -> Result[SamplingParams, GrammarError]:
    """The sampler's parameters; an error points at the message's field."""
    match SamplingParams.parse(**fields):
        case Err(error):
            return Err(Places(fields=pointers).located(error))
        case Ok() as parsed:
            return parsed


def stops(model: Model, given: Sequence[int], *, ignore_eos: bool) -> tuple[int, ...]:
    """The tokens that end the text whatever the model's own do: those that are given, and its own unless they are to be
    ignored."""
    own = () if ignore_eos else model.vocabulary.eos_token_ids
    return (*own, *given)


_READERS: Final = MappingProxyType({**STRUCTURED_OUTPUTS, "json_schema": STRUCTURED_OUTPUTS["json"]})
"""By the name of the field, in either dialect."""


def constraint(message: Message, oneof: str, path: str) -> Result[Placed[GrammarSpec] | None, GrammarError]:
    """The spec in a message's ``oneof``; None if no field of it is set. ``path`` leads to the message."""
    name = message.WhichOneof(oneof)
    if name is None:
        return Ok(None)
    value, pointer = getattr(message, name), f"/{path}/{name}"
    if name == "choice":
        value, pointer = list(value.choices), f"{pointer}/choices"
    return _READERS[name](value, limits=DEFAULT_LIMITS, pointer=pointer)
