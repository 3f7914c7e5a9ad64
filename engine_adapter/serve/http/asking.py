"""From a request's fields to what the engine is asked, for chats and for completions alike."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

import attrs

from engine_adapter.embedded.request import Request
from engine_adapter.outcome import Delta, Finished, Terminal
from engine_adapter.sampling import SamplingParams
from engine_adapter.serve.http.requests import CommonRequest
from engine_adapter.serve.served import ServedModel
from structout.errors import ErrorKind, Fault, GrammarError
from structout.parsing import parse_request, requested_backend
from structout.parsing.problems import child, quote
from structout.result import Err, Ok, Result

JsonObject = dict[str, Any]


class ChoiceStream(Protocol):
    """Writes the chunks of one choice. Each method returns what belongs into ``choices``, which may be nothing yet."""

    def delta(self, delta: Delta) -> list[JsonObject]: ...

    def end(self, end: Terminal) -> list[JsonObject]: ...


class Shape(Protocol):
    """What replies of one endpoint look like."""

    @property
    def id_prefix(self) -> str: ...

    @property
    def object_name(self) -> str:
        """``object`` of a whole reply."""
        ...

    @property
    def chunk_name(self) -> str:
        """``object`` of a part of a stream."""
        ...

    def judge(self, finished: Finished) -> GrammarError | None:
        """Why a text that the engine takes for finished cannot be put into this shape; None if it can."""
        ...

    def choice(self, index: int, deltas: list[Delta], end: Terminal) -> JsonObject:
        """A choice of a whole reply."""
        ...

    def stream(self, index: int) -> ChoiceStream: ...


@attrs.frozen(kw_only=True)
class Asked:
    """What a client wants.

    Attributes:
        request: for the engine.
        n: how many answers.
        model: what the reply calls the model.
        is_stream: whether they come as server-sent events.
        has_usage: whether a stream ends with the counts of tokens.
        shape: what the reply looks like.
        places: pointers of the fields that the engine may find fault with, by its own names for them.
    """

    request: Request
    n: int
    model: str
    is_stream: bool
    has_usage: bool
    shape: Shape
    places: Mapping[str, str]

    def located(self, error: GrammarError) -> GrammarError:
        """The error with a pointer into the client's request, if it names a field of the engine's."""
        place = self.places.get(error.keyword or "")
        return error if place is None or error.pointer is not None else attrs.evolve(error, pointer=place)


@attrs.frozen(kw_only=True)
class Wanted:
    """What one endpoint has made of its own fields.

    Attributes:
        prompt: token ids.
        max_tokens: most tokens of an answer.
        logprobs: how many alternatives to report at each token; None for no log-probabilities at all.
        shape: what the reply looks like.
        places: see `Asked`; of those fields that have other names here, or other places.
    """

    prompt: tuple[int, ...]
    max_tokens: int
    logprobs: int | None
    shape: Shape
    places: Mapping[str, str]


_PLACES: Final = {"min_tokens": "/min_tokens", "stop": "/stop"}


def asked(
    body: Mapping[str, Any], fields: CommonRequest, wanted: Wanted, served: ServedModel, request_id: str
) -> Result[Asked, GrammarError]:
    """Puts it together; the constraint and its backend are read by `structout.parsing` alone."""
    match parse_request(body), requested_backend(body), _sampling(fields, wanted):
        case (Err() as failed, _, _) | (_, Err() as failed, _) | (_, _, Err() as failed):
            return failed
        case Ok(spec), Ok(backend), Ok(sampling):
            pass
    request = Request(
        id=request_id,
        prompt=wanted.prompt,
        max_tokens=wanted.max_tokens,
        min_tokens=fields.min_tokens or 0,
        sampling=sampling,
        spec=spec,
        stop=tuple(fields.stop or ()),
        backend=backend,
    )
    return Ok(
        Asked(
            request=request,
            n=fields.n or 1,
            model=served.name,
            is_stream=bool(fields.stream),
            has_usage=bool(fields.stream_options and fields.stream_options.include_usage),
            shape=wanted.shape,
            places={**_PLACES, **wanted.places},
        )
    )


def _sampling(fields: CommonRequest, wanted: Wanted) -> Result[SamplingParams, GrammarError]:
    parsed = SamplingParams.parse(
        temperature=fields.temperature,
        top_p=fields.top_p,
        top_k=fields.top_k,
        min_p=fields.min_p,
        seed=fields.seed,
        logprobs=wanted.logprobs,
    )
    if isinstance(parsed, Err) and (keyword := parsed.error.keyword) is not None:
        place = wanted.places.get(keyword, child("", keyword))
        return Err(attrs.evolve(parsed.error, pointer=place))
    return parsed


def wrong_model(fields: CommonRequest, served: ServedModel) -> GrammarError | None:
    """An error if the request names a model that is not served here."""
    return None if fields.model in (None, served.name) else unknown_model(str(fields.model), served)


def unknown_model(name: str, served: ServedModel) -> GrammarError:
    return GrammarError(
        kind=ErrorKind.UNAVAILABLE,
        fault=Fault.CALLER,
        message=f"there is no model {quote(name)} here",
        pointer="/model",
        keyword="model",
        hint=f"use {quote(served.name)}, which /v1/models lists",
    )
