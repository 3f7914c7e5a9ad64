"""``/v1/embeddings``: texts, or token ids, as vectors."""

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs
import numpy as np
from pydantic import Field, field_validator
from starlette.responses import Response

from engine_adapter.embedded.admission import objection
from engine_adapter.embedded.request import Request
from engine_adapter.outcome import Failed, Finished, internal_error
from engine_adapter.serve.embedding import Embedder, Failure
from engine_adapter.serve.ends import Ends
from engine_adapter.serve.http.answering import Send
from engine_adapter.serve.http.asking import JsonObject, read_for, tokens_of
from engine_adapter.serve.http.body import flattened, rooted
from engine_adapter.serve.http.errors import error_response, log_error
from engine_adapter.serve.http.requests import ModelRequest, Prompt
from engine_adapter.serve.served import ServedModel
from structout.errors import ErrorKind, GrammarError
from structout.parsing.fields import KNOWN_FIELDS
from structout.parsing.problems import child
from structout.result import Err, Ok, Result

MAX_INPUTS: Final = 2048
"""Most texts in one request, as in OpenAI's API."""

MAX_TOKENS: Final = 300_000
"""Most tokens of all of them together, as in OpenAI's API."""


class EmbeddingsRequest(ModelRequest):
    input: list[Prompt] = Field(min_length=1, max_length=MAX_INPUTS, fail_fast=True)
    encoding_format: Literal["float", "base64"] | None = None

    @field_validator("input", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        return [value] if _is_one(value) else value


def _is_one(value: object) -> bool:
    """Whether an input is one prompt and no list of them."""
    return isinstance(value, str) or (isinstance(value, list) and bool(value) and type(value[0]) is int)


@attrs.frozen(kw_only=True)
class AskedEmbeddings:
    """What a client wants.

    Attributes:
        id: the request's.
        requests: for the engine, one for each input.
        model: what the reply calls the model.
        is_base64: whether vectors are the base64 of their numbers, float32, the lowest byte first.
        is_one: whether the input is one prompt and no list.
        field: the pointer of the input.
    """

    id: str
    requests: tuple[Request, ...]
    model: str
    is_base64: bool
    is_one: bool
    field: str

    def place(self, index: int) -> str:
        """The pointer of one of the inputs."""
        return _place(self.field, index, self.is_one)


def read_embeddings(
    body: Mapping[str, Any], served: ServedModel, request_id: str
) -> Result[AskedEmbeddings, GrammarError]:
    """What a body asks for. All inputs are checked before any is computed."""
    match read_for(served, body, EmbeddingsRequest):
        case Err() as failed:
            return failed
        case Ok(fields):
            pass
    given = flattened(body)
    if (error := _constrained(given)) is not None:
        return Err(error)
    field, is_one = rooted(body, "/input"), _is_one(given["input"])
    match _requests(fields.input, field, is_one, served, request_id):
        case Err() as failed:
            return failed
        case Ok(requests):
            pass
    return Ok(
        AskedEmbeddings(
            id=request_id,
            requests=requests,
            model=served.name,
            is_base64=fields.encoding_format == "base64",
            is_one=is_one,
            field=field,
        )
    )


def _constrained(given: Mapping[str, Any]) -> GrammarError | None:
    """An error for a constraint, which nothing here would enforce."""
    for name in KNOWN_FIELDS:
        if given.get(name) is not None:
            message = f"{name} is not supported: an embedding is no text"
            place = child("", name)
            return GrammarError(kind=ErrorKind.UNSUPPORTED, message=message, pointer=place, keyword=name)
    return None


def _requests(
    prompts: list[str | list[int]], field: str, is_one: bool, served: ServedModel, request_id: str
) -> Result[tuple[Request, ...], GrammarError]:
    """A request for each input; nothing is looked at behind the first that is too much, or unfit."""
    requests: list[Request] = []
    room = MAX_TOKENS
    for index, prompt in enumerate(prompts):
        match tokens_of(prompt, served):
            case Err(refused):
                return Err(_at(_place(field, index, is_one), refused))
            case Ok(tokens) if (room := room - len(tokens)) < 0:
                return Err(_at(field, _TOO_MANY_TOKENS))
            case Ok(tokens):
                request = Request(id=f"{request_id}-{index}", prompt=tokens, embed=True)
        if error := objection(request, served.vocabulary, max_len=served.max_len):
            return Err(_at(_place(field, index, is_one), error))
        requests.append(request)
    return Ok(tuple(requests))


_TOO_MANY_TOKENS: Final = GrammarError(
    kind=ErrorKind.TOO_COMPLEX,
    message=f"the inputs have more than {MAX_TOKENS:,} tokens together",
    hint="send them in several requests",
)


def _at(place: str, error: GrammarError) -> GrammarError:
    return attrs.evolve(error, pointer=place, keyword="input")


def _place(field: str, index: int, is_one: bool) -> str:
    """The pointer of one of the inputs, which are in ``field``."""
    return field if is_one else child(field, index)


@attrs.frozen(eq=False)
class EmbeddingsAnswerer:
    """Answers requests for embeddings, each whole or with the error of the first input that failed."""

    embedder: Embedder
    ends: Ends

    async def __call__(self, asked: AskedEmbeddings, send: Send) -> None:
        match await self.embedder.embed(asked.requests):
            case Ok(ends):
                await send(Response(await self._written(asked, ends), media_type="application/json"))
            case Err(Failure(error, None)):
                log_error(error, asked.id)
                self.ends.add(asked.id, Failed(error))
                await send(error_response(error))
            case Err(Failure(error, int(index))):
                log_error(error, asked.id)
                await send(error_response(attrs.evolve(error, pointer=asked.place(index))))

    async def _written(self, asked: AskedEmbeddings, ends: list[Finished]) -> bytes:
        """The reply. What is raised, which is a bug, is the failure of all inputs."""
        try:
            # On another thread: a long reply is a million numbers to write.
            return await asyncio.to_thread(_written, asked, ends)
        except Exception as exc:
            for request in asked.requests:
                self.ends.correct(request.id, internal_error(exc))
            raise


def _written(asked: AskedEmbeddings, ends: list[Finished]) -> bytes:
    """The reply. Each vector is written for itself: other threads get their turns in between."""
    data = [json.dumps(_embedding(index, end, asked.is_base64)) for index, end in enumerate(ends)]
    tokens = sum(end.usage.prompt_tokens for end in ends)
    rest = json.dumps({"model": asked.model, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}})
    return f'{{"object": "list", "data": [{", ".join(data)}], {rest[1:]}'.encode()


def _embedding(index: int, end: Finished, is_base64: bool) -> JsonObject:
    vector = end.vector or ()
    numbers = base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode() if is_base64 else list(vector)
    return {"object": "embedding", "index": index, "embedding": numbers}
