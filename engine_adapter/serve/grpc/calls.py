"""The calls under way. Each reads its message, runs in the engine, and ends once: with its replies or its cause."""

import asyncio
import functools
import logging
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, Final, Protocol

import attrs
from google.protobuf.message import Message
from grpc.aio import ServicerContext

from engine_adapter.embedded.admission import objection
from engine_adapter.outcome import Aborted, Failed, internal_error
from engine_adapter.serve.grpc.asked import Asked, Model
from engine_adapter.serve.grpc.status import metadata_of, status_of
from engine_adapter.serve.samples import SampleOutcome, sample_ids, sampled
from engine_adapter.serve.served import ServedModel
from structout.errors import ErrorKind, GrammarError
from structout.observability.logs import RequestLogger
from structout.result import Err, Ok, Result

logger = logging.getLogger(__name__)

MAX_ID_LENGTH: Final = 256
"""Most characters of a request's id: each of its samples, each record about it and each event has it."""


class Replies(Protocol):
    """Writes one call's outcomes as messages."""

    def of(self, each: SampleOutcome) -> Iterable[Message]:
        """The messages that an outcome becomes; a failure becomes none."""
        ...

    def excused(self, index: int, error: GrammarError) -> Message | None:
        """The message that says that one of several samples failed; None where the protocol has none."""
        ...


@attrs.frozen
class Method:
    """How one method of a dialect reads its message and writes its replies.

    Attributes:
        read: a message as the engine takes it, given the model and the request's id. Pure, and never raises.
        replies: what writes the replies to a message that was read.
    """

    read: Callable[[Any, Model, str], Result[Asked, GrammarError]]
    replies: Callable[[Any, Asked, Model], Replies]


@attrs.define(eq=False)
class _Call:
    """One call. ``samples`` is how many the engine was given: none while the message is read."""

    request_id: str
    samples: int = 0
    is_aborted: bool = False


class Calls:
    """Serves calls of any method, in one event loop. A call's id is unique among those under way, whatever the dialect.

    A client that cancels its call, or is gone, aborts the request in the engine; so does `abort`.
    """

    def __init__(self, served: ServedModel) -> None:
        self._served = served
        self._calls: dict[str, _Call] = {}

    def __len__(self) -> int:
        return len(self._calls)

    async def stream(self, method: Method, message: Any, context: ServicerContext[Any, Any]) -> None:
        """Serves a call that is answered with a stream. A failure's status follows the replies that were sent."""
        await self._serve(method, message, context, context.write)

    async def unary(self, method: Method, message: Any, context: ServicerContext[Any, Any]) -> Message:
        """Serves a call that is answered with one message, which the method's replies consist of."""
        replies: list[Message] = []

        async def keep(reply: Message) -> None:
            replies.append(reply)

        await self._serve(method, message, context, keep)
        [reply] = replies
        return reply

    async def abort(self, request_ids: Iterable[str]) -> None:
        """Ends requests with `Aborted`, which their own calls are told. Ids of no request are passed over."""
        for request_id in self._calls.keys() & request_ids:
            await self._abort(request_id)

    async def _abort(self, request_id: str) -> None:
        if (call := self._calls.get(request_id)) is None:
            return
        call.is_aborted = True
        await asyncio.sleep(0)  # the tasks of samples that were begun just now reach the engine
        if self._calls.get(request_id) is call:
            for sample_id in sample_ids(request_id, call.samples):
                self._served.running.abort(sample_id)

    async def _serve(
        self,
        method: Method,
        message: Any,
        context: ServicerContext[Any, Any],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        request_id = message.request_id or uuid.uuid4().hex
        is_long = len(request_id) > MAX_ID_LENGTH
        log = RequestLogger(logger, request_id[:MAX_ID_LENGTH])
        try:
            if is_long:
                error: GrammarError | None = self._refused(request_id[:MAX_ID_LENGTH], _LONG_ID)
            else:
                error = await self._answer(method, message, request_id, context, send)
        except Exception as exc:
            log.exception("a call failed")
            error = internal_error(exc)
        if error is not None:
            log.failed(error)
            status = status_of(error)
            await context.abort(status.code, status.message, status.metadata)

    async def _answer(
        self,
        method: Method,
        message: Any,
        request_id: str,
        context: ServicerContext[Any, Any],
        send: Callable[[Message], Awaitable[None]],
    ) -> GrammarError | None:
        """Sends the replies. Returns why the call as a whole fails, if it does."""
        with self._entered(request_id) as call:
            if call is None:
                message_ = "there is a request with this id already"
                error = GrammarError(kind=ErrorKind.INVALID_SPEC, message=message_, pointer="/request_id")
                return self._refused(request_id, error)
            # On another thread: a long text or schema takes its time, and the other calls' tokens do not wait for it.
            read = functools.partial(self._read, method, message, request_id)
            match await self._served.reading.run(message.ByteSize(), read):
                case Err(error):
                    return self._refused(request_id, error)
                case Ok(asked):
                    pass
            replies = method.replies(message, asked, self._served)
            failed = await self._run(call, asked, replies, send)
            return await _excuse(failed, asked, replies, context, send)

    def _refused(self, request_id: str, error: GrammarError) -> GrammarError:
        """Counts a call that does not come to the engine."""
        self._served.running.ends.add(request_id, Failed(error))
        return error

    def _read(self, method: Method, message: Any, request_id: str) -> Result[Asked, GrammarError]:
        """What a message asks for, if the engine would take it: a request is copied for each of its answers later."""
        match method.read(message, self._served, request_id):
            case Ok(asked) if error := objection(asked.request, self._served.vocabulary, max_len=self._served.max_len):
                return Err(asked.places.located(error))
            case read:
                return read

    @contextmanager
    def _entered(self, request_id: str) -> Iterator[_Call | None]:
        """The call under this id for as long as the block runs; None if there is one already."""
        if request_id in self._calls:
            yield None
            return
        self._calls[request_id] = call = _Call(request_id)
        try:
            yield call
        finally:
            del self._calls[request_id]

    async def _run(
        self, call: _Call, asked: Asked, replies: Replies, send: Callable[[Message], Awaitable[None]]
    ) -> dict[int, GrammarError]:
        """Sends what the samples say. Returns the errors of those that failed, by index."""
        failed: dict[int, GrammarError] = {}
        async with aclosing(self._outcomes(call, asked)) as outcomes:
            async for each in outcomes:
                if isinstance(each.outcome, Failed):
                    failed[each.index] = each.outcome.error
                for reply in replies.of(each):
                    await send(reply)
        return failed

    async def _outcomes(self, call: _Call, asked: Asked) -> AsyncGenerator[SampleOutcome, None]:
        if call.is_aborted:
            for index in range(asked.n):
                yield SampleOutcome(index, Aborted())
            return
        call.samples = asked.n
        outcomes = sampled(self._served.running, asked.request, asked.n, judged=asked.judged)
        async with aclosing(outcomes):
            async for each in outcomes:
                yield each


_LONG_ID: Final = GrammarError(
    kind=ErrorKind.INVALID_SPEC,
    message=f"the request's id has more than {MAX_ID_LENGTH} characters",
    pointer="/request_id",
    hint="use a shorter one, or leave it out",
)


async def _excuse(
    failed: dict[int, GrammarError],
    asked: Asked,
    replies: Replies,
    context: ServicerContext[Any, Any],
    send: Callable[[Message], Awaitable[None]],
) -> GrammarError | None:
    """Says that some samples failed, in messages if not all did and there are such messages.

    Returns the first one's error if it has to be the call's; else it goes into the metadata of a call that succeeds.
    """
    if not failed:
        return None
    first = failed[min(failed)]
    excuses = [replies.excused(index, error) for index, error in sorted(failed.items())]
    messages = [message for message in excuses if message is not None]
    if len(failed) == asked.n or len(messages) < len(failed):
        return first
    for message in messages:
        await send(message)
    context.set_trailing_metadata(metadata_of(first))
    return None
