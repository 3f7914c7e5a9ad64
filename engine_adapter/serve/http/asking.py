"""From a request's fields to what the engine is asked, for every endpoint that generates."""

from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeVar

import attrs

from engine_adapter.embedded.admission import objection
from engine_adapter.embedded.request import Request
from engine_adapter.outcome import Failed, Finished, Terminal
from engine_adapter.sampling import SamplingParams
from engine_adapter.serve.http.body import read_fields, rooted
from engine_adapter.serve.http.requests import GenerationRequest, ModelRequest
from engine_adapter.serve.places import Places
from engine_adapter.serve.samples import SampleOutcome, Samples
from engine_adapter.serve.served import ServedModel, unknown_model
from structout.errors import GrammarError
from structout.parsing import placed_backend, placed_request
from structout.parsing.places import value_of
from structout.parsing.problems import child, quote
from structout.result import Err, Ok, Result

JsonObject = dict[str, Any]
F = TypeVar("F", bound=ModelRequest)


class EventWriter(Protocol):
    """Writes the events of one stream."""

    def take(self, each: SampleOutcome) -> bytes:
        """The events for one outcome; b"" if there are none yet, and for the failure of an only sample."""
        ...

    def last(self, samples: Samples) -> bytes:
        """What follows when all samples have ended; tells the error if the request as a whole has failed."""
        ...

    def broken(self, error: GrammarError) -> bytes:
        """The end of a stream that breaks off for a bug of ours."""
        ...


class Form(Protocol):
    """What the replies of one endpoint look like."""

    def judge(self, finished: Finished) -> GrammarError | None:
        """Why a text that the engine takes for finished cannot be put into this form; None if it can."""
        ...

    def whole(self, asked: "Asked", samples: Samples) -> JsonObject:
        """A whole reply; some of the samples, which have all ended, have finished."""
        ...

    def stream(self, asked: "Asked") -> EventWriter: ...


@attrs.frozen(kw_only=True)
class Asked:
    """What a client wants.

    Attributes:
        request: for the engine.
        n: how many answers.
        model: what the reply calls the model.
        is_stream: whether they come as server-sent events.
        form: what the reply looks like.
        places: where the client's request has what an error may be about.
    """

    request: Request
    n: int
    model: str
    is_stream: bool
    form: Form
    places: Places

    def judged(self, end: Terminal) -> Terminal:
        """An end as the client is told it: an error points into the request; a text that fits no reply is a failure."""
        match end:
            case Failed(error):
                return Failed(self.places.located(error))
            case Finished() as finished if (unfit := self.form.judge(finished)) is not None:
                return Failed(unfit)
        return end


@attrs.frozen(kw_only=True)
class Wanted:
    """What one endpoint has made of its own fields.

    Attributes:
        prompt: token ids.
        max_tokens: most tokens of an answer.
        form: what the reply looks like.
        places: pointers of the fields that have other names here than in the engine, or other places, by its names.
        logprobs: how many alternatives to report at each token; None for no log-probabilities at all.
        stop: what ends an answer.
        n: how many answers.
    """

    prompt: tuple[int, ...]
    max_tokens: int
    form: Form
    places: Mapping[str, str]
    logprobs: int | None = None
    stop: tuple[str, ...] = ()
    n: int = 1


_PLACES: Final = {"min_tokens": "/min_tokens", "stop": "/stop", "logit_bias": "/logit_bias"}


def asked(
    body: Mapping[str, Any], fields: GenerationRequest, wanted: Wanted, served: ServedModel, request_id: str
) -> Result[Asked, GrammarError]:
    """Puts it together, if the engine would take it; the constraint and its backend are read by `structout.parsing`
    alone."""
    match placed_request(body), placed_backend(body), _sampling(fields, wanted):
        case (Err() as failed, _, _) | (_, Err() as failed, _) | (_, _, Err() as failed):
            return failed
        case Ok(constraint), Ok(backend), Ok(sampling):
            pass
    request = Request(
        id=request_id,
        prompt=wanted.prompt,
        max_tokens=wanted.max_tokens,
        min_tokens=fields.min_tokens or 0,
        sampling=sampling,
        spec=value_of(constraint),
        stop=wanted.stop,
        ignore_eos=bool(fields.ignore_eos),
        backend=value_of(backend),
    )
    places = Places(
        fields={name: rooted(body, place) for name, place in {**_PLACES, **wanted.places}.items()},
        constraint=constraint,
        backend=backend,
    )
    # Here, on a reading thread, and not by the engine alone: before that, a request is copied for each of its answers.
    if error := objection(request, served.vocabulary, max_len=served.max_len):
        return Err(places.located(error))
    return Ok(
        Asked(
            request=request,
            n=wanted.n,
            model=served.name,
            is_stream=bool(fields.stream),
            form=wanted.form,
            places=places,
        )
    )


def _sampling(fields: GenerationRequest, wanted: Wanted) -> Result[SamplingParams, GrammarError]:
    parsed = SamplingParams.parse(
        temperature=fields.temperature,
        top_p=fields.top_p,
        top_k=fields.top_k,
        min_p=fields.min_p,
        presence_penalty=fields.presence_penalty,
        frequency_penalty=fields.frequency_penalty,
        repetition_penalty=fields.repetition_penalty,
        logit_bias=fields.logit_bias,
        seed=fields.seed,
        logprobs=wanted.logprobs,
    )
    if isinstance(parsed, Err) and (keyword := parsed.error.keyword) is not None:
        place = wanted.places.get(keyword, child("", keyword))
        return Err(attrs.evolve(parsed.error, pointer=place))
    return parsed


def read_for(served: ServedModel, body: Mapping[str, Any], fields: type[F]) -> Result[F, GrammarError]:
    """The fields of a body for a model that is served here; or what is wrong with them."""
    match read_fields(body, fields):
        case Ok(read) if read.model not in (None, served.name):
            return Err(not_served(str(read.model), served))
        case result:
            return result


def tokens_of(prompt: str | list[int], served: ServedModel) -> Result[tuple[int, ...], GrammarError]:
    """The token ids of a prompt, or why it has too many."""
    return served.prompts.of_text(prompt) if isinstance(prompt, str) else Ok(tuple(prompt))


def not_served(name: str, served: ServedModel) -> GrammarError:
    return unknown_model(name, f"use {quote(served.name)}, which /v1/models lists")
