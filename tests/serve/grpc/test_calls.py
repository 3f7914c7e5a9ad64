"""What is hard to reach from outside: calls at the moment at which something else happens to them."""

import asyncio
from collections.abc import Sequence
from typing import Any

import attrs
import grpc
import hypothesis.strategies as st
import pytest
from hypothesis import given
from smg_grpc_proto.generated import vllm_engine_pb2 as smg

from engine_adapter.serve.grpc import inference_request
from engine_adapter.serve.grpc.asked import Asked, Model
from engine_adapter.serve.grpc.calls import Calls, Method, _excuse
from engine_adapter.serve.grpc.inference_pb2 import FinishInfo, GenerateRequest, RandomSampling, StoppingCriteria
from engine_adapter.serve.grpc.inference_replies import StreamReplies
from engine_adapter.serve.grpc.status import Metadata, metadata_of
from engine_adapter.serve.grpc.vllm_engine_replies import Replies
from engine_adapter.serve.samples import SampleOutcome
from structout import ErrorKind, GrammarError
from tests.serve.grpc.support import ByteModel
from tests.serve.support import guarded, running, scripted_engine, served_by


class Abandoned(Exception):
    """What `Context.abort` raises, as gRPC's does."""


@attrs.define
class Context:
    """A call as its server sees it, without a network."""

    written: list[Any] = attrs.field(factory=list)
    code: grpc.StatusCode | None = None
    details: str = ""
    metadata: Metadata = ()

    def set_trailing_metadata(self, metadata: Metadata) -> None:
        self.metadata = metadata

    async def write(self, message: Any) -> None:
        self.written.append(message)

    async def abort(self, code: grpc.StatusCode, details: str, trailing_metadata: Sequence[Any]) -> None:
        self.code, self.details = code, details
        raise Abandoned


def question(n: int = 1) -> GenerateRequest:
    stopping = StoppingCriteria(max_new_tokens=60, ignore_eos=True)
    sampling = RandomSampling(num_sequences=n)
    return GenerateRequest(text="hi", request_id="a", stopping=stopping, sampling=sampling)


@pytest.mark.parametrize("n", [1, 3])
def test_an_abort_that_comes_before_the_samples_tasks_have_run_is_not_lost(n: int) -> None:
    context: Any = Context()
    aborts: list[asyncio.Task[None]] = []

    async def main() -> None:
        async with running(scripted_engine()) as engine:
            calls = Calls(served_by(engine))

            def replies(message: GenerateRequest, asked: Asked, model: Model) -> StreamReplies:
                aborts.append(asyncio.ensure_future(calls.abort(["a"])))  # runs before what is begun after this
                return StreamReplies(message, asked, model)

            await calls.stream(Method(inference_request.read, replies), question(n), context)
            await asyncio.gather(*aborts)

    guarded(main)
    ends = [each.outputs for each in context.written if each.outputs.HasField("finish_info")]
    assert [each.finish_info.finish_reason for each in ends] == [FinishInfo.ABORTED] * n


@given(st.dictionaries(st.integers(0, 5), st.text(max_size=3)), st.integers(1, 6), st.booleans())
def test_what_fails_is_told_once_and_the_first_samples_error_is_the_calls(
    failed: dict[int, str], running: int, has_excuses: bool
) -> None:
    n = max(failed, default=0) + running
    errors = {index: GrammarError(kind=ErrorKind.DEAD_END, message=text) for index, text in failed.items()}
    request = question(n)
    asked = inference_request.read(request, ByteModel(), "a").unwrap()
    replies: Any = StreamReplies(request, asked, ByteModel())
    if has_excuses:
        replies = Replies(smg.GenerateRequest(), asked, ByteModel())
    context: Any = Context()
    error = asyncio.run(_excuse(errors, asked, replies, context, context.write))
    first = errors[min(errors)] if errors else None
    if not failed or not has_excuses or len(failed) == n:
        assert (error, context.written, context.metadata) == (first, [], ())
    else:
        assert error is None
        assert [each.complete.index for each in context.written] == sorted(failed)
        assert context.metadata == metadata_of(errors[min(errors)])


class BrokenReplies(StreamReplies):
    """Fails to write the third outcome."""

    seen = 0

    def of(self, each: SampleOutcome) -> Any:
        self.seen += 1
        if self.seen == 3:
            raise RuntimeError("secret internals")
        return super().of(each)


def test_replies_that_cannot_be_written_end_the_call_and_its_request() -> None:
    context: Any = Context()
    engine = scripted_engine()

    async def main() -> None:
        async with running(engine) as engine_runs:
            calls = Calls(served_by(engine_runs))
            with pytest.raises(Abandoned):
                await calls.stream(Method(inference_request.read, BrokenReplies), question(), context)
            assert len(calls) == 0
            await engine_runs.close(60.0)

    guarded(main)
    assert engine.unfinished == 0
    assert (context.code, len(context.written)) == (grpc.StatusCode.INTERNAL, 2)
    assert "secret" not in context.details
