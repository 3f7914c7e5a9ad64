"""Every request ends exactly once, at whoever asked, whatever readers, engine and shutdown do meanwhile."""

import asyncio
import threading
from contextlib import aclosing

import attrs
import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from engine_adapter.embedded.engine import GrammarService
from engine_adapter.embedded.request import Request
from engine_adapter.outcome import Aborted, Delta, Failed, Finished, Outcome
from engine_adapter.sampling import SamplingParams
from engine_adapter.serve.running import RunningEngine
from structout import Choice, ErrorKind
from structout.errors import Fault
from tests.scripted import ScriptedRunner
from tests.serve.support import (
    GUARD_S,
    BreakingEngine,
    GatedRunner,
    NeverReady,
    all_of,
    compile_service,
    ends_once,
    guarded,
    running,
    scripted_engine,
)

GREEDY = SamplingParams(temperature=0.0)


def free(id: str, max_tokens: int = 5) -> Request:
    return Request(id=id, prompt=(1, 2), max_tokens=max_tokens, stop_token_ids=(), sampling=GREEDY)


def picky(id: str, *options: str) -> Request:
    return Request(id=id, prompt=(3,), spec=Choice(options), sampling=GREEDY)


def test_a_request_says_its_deltas_and_then_its_end() -> None:
    async def main() -> list[Outcome]:
        async with running(scripted_engine()) as engine:
            return await all_of(engine.outcomes(free("a")))

    outcomes = guarded(main)
    end = outcomes[-1]
    assert ends_once(outcomes)
    assert isinstance(end, Finished)
    assert "".join(delta.text for delta in outcomes if isinstance(delta, Delta)) == end.text
    assert len(end.token_ids) == 5


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (Request(id="a", prompt=()), ErrorKind.INVALID_SPEC),
        (picky("a", "refuse"), ErrorKind.UNSUPPORTED),
        (picky("a", "raise"), ErrorKind.BACKEND_FAILURE),
    ],
)
def test_what_the_engine_refuses_fails_and_its_id_is_free_again(request_: Request, kind: ErrorKind) -> None:
    async def main() -> tuple[list[Outcome], list[Outcome]]:
        async with running(scripted_engine()) as engine:
            return await all_of(engine.outcomes(request_)), await all_of(engine.outcomes(free("a")))

    refused, later = guarded(main)
    [failed] = refused
    assert isinstance(failed, Failed)
    assert failed.error.kind is kind
    assert isinstance(later[-1], Finished)


def test_an_id_can_be_used_once_at_a_time() -> None:
    async def main() -> tuple[Outcome, Outcome]:
        async with (
            running(BreakingEngine(ScriptedRunner(), NeverReady())) as engine,
            aclosing(engine.outcomes(picky("a", "x"))) as first,
        ):
            blocked = asyncio.ensure_future(anext(first))
            await asyncio.sleep(0)
            second = await anext(engine.outcomes(free("a")))
            blocked.cancel()
            await asyncio.gather(blocked, return_exceptions=True)
            return second, (await all_of(engine.outcomes(free("b"))))[-1]

    second, other = guarded(main)
    assert isinstance(second, Failed)
    assert second.error.keyword == "id"
    assert isinstance(other, Finished)


def test_the_id_of_a_request_that_has_ended_can_be_used_at_once() -> None:
    async def main() -> list[Outcome]:
        async with running(scripted_engine()) as engine:
            return [(await all_of(engine.outcomes(free("a"))))[-1] for _ in range(20)]

    assert [type(end) for end in guarded(main)] == [Finished] * 20


def test_more_requests_than_may_be_under_way_are_refused() -> None:
    async def main() -> list[Outcome]:
        inner = scripted_engine()
        engine = RunningEngine(inner, max_requests=2)
        asking = [asyncio.ensure_future(all_of(engine.outcomes(free(name)))) for name in "abc"]
        await asyncio.sleep(0)
        engine.start()
        ends = [outcomes[-1] for outcomes in await asyncio.gather(*asking)]
        ends += await all_of(engine.outcomes(free("d", 1)))
        await engine.close(0.0)
        return ends

    first, second, third, *_, last = guarded(main)
    assert [type(end) for end in (first, second, last)] == [Finished] * 3
    assert isinstance(third, Failed)
    assert third.error.consequence.http_status == 503
    assert third.error.consequence.retry


def test_closing_the_iterator_releases_a_compile_that_nobody_else_waits_for() -> None:
    service = NeverReady()

    async def main() -> None:
        async with running(BreakingEngine(ScriptedRunner(), service)) as engine:
            task = asyncio.ensure_future(all_of(engine.outcomes(picky("a", "x"))))
            await asyncio.sleep(0)
            withdrawn = threading.Event()
            (await service.submitted.get()).add_done_callback(withdrawn.set)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert await asyncio.to_thread(withdrawn.wait, 60)

    guarded(main)


def test_an_exception_out_of_the_step_fails_all_requests_and_all_later_ones() -> None:
    engine = scripted_engine()
    engine.breaks_at = 3

    async def main() -> list[list[Outcome]]:
        async with running(engine) as engine_runs:
            assert engine_runs.unavailable is None
            together = await asyncio.gather(*(all_of(engine_runs.outcomes(free(name, 50))) for name in "abcdefg"))
            assert engine_runs.failure is not None
            return [*together, await all_of(engine_runs.outcomes(free("later")))]

    for outcomes in guarded(main):
        end = outcomes[-1]
        assert ends_once(outcomes)
        assert isinstance(end, Failed)
        assert end.error.kind is ErrorKind.ENGINE_FAILURE
        assert "secret" not in str(end.error.to_json())


def test_close_lets_requests_finish_within_the_grace_and_takes_no_more() -> None:
    async def main() -> tuple[list[Outcome], list[Outcome]]:
        async with running(scripted_engine()) as engine:
            under_way = asyncio.ensure_future(all_of(engine.outcomes(free("a", 40))))
            await asyncio.sleep(0)
            closing = asyncio.ensure_future(engine.close(60.0))
            await asyncio.sleep(0)
            refused = await all_of(engine.outcomes(free("b")))
            await closing
            await engine.close(60.0)
            return await under_way, refused

    finished, [refused] = guarded(main)
    assert isinstance(finished[-1], Finished)
    assert isinstance(refused, Failed)
    assert (refused.error.kind, refused.error.fault) == (ErrorKind.UNAVAILABLE, Fault.SERVICE)


def test_what_has_not_finished_within_the_grace_fails_with_the_cause() -> None:
    async def main() -> list[Outcome]:
        async with running(BreakingEngine(ScriptedRunner(), NeverReady())) as engine:
            under_way = asyncio.ensure_future(all_of(engine.outcomes(picky("a", "x"))))
            await asyncio.sleep(0)
            await engine.close(0.0)
            return await under_way

    [failed] = guarded(main)
    assert isinstance(failed, Failed)
    assert failed.error.consequence.http_status == 503


class Sleeper(BreakingEngine):
    """Tells that it is about to wait for work; nobody may wake it in vain, or wait for a time."""

    def __init__(self, runner: ScriptedRunner, service: GrammarService) -> None:
        super().__init__(runner, service)
        self.waits = threading.Semaphore(0)

    def wait_for_work(self, timeout_s: float | None = None) -> bool:
        assert timeout_s is None
        if not self.has_work:
            self.waits.release()
        return super().wait_for_work()


def test_an_engine_with_nothing_to_do_is_closed_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """Not left behind by a shutdown that waits for it in vain."""
    inner = Sleeper(ScriptedRunner(), compile_service())

    async def main() -> None:
        async with running(inner) as engine:
            assert await asyncio.to_thread(inner.waits.acquire, timeout=GUARD_S)
            await engine.close(0.0)

    guarded(main)
    assert not caplog.records
    inner.close()


def test_a_grammar_that_becomes_ready_wakes_an_engine_that_sleeps() -> None:
    service = NeverReady()
    inner = Sleeper(ScriptedRunner(), service)

    async def main() -> list[Outcome]:
        async with running(inner) as engine:
            asking = asyncio.ensure_future(all_of(engine.outcomes(picky("a", "x"))))
            pending = await service.submitted.get()
            while not (engine.under_way()[0].state == "blocked" and not inner.has_work):
                await asyncio.sleep(0)
            pending.settle(compile_service().compile(Choice(("x",))))
            return await asking

    end = guarded(main)[-1]
    assert isinstance(end, Finished)
    assert end.text == "x"


def test_an_engine_that_was_never_started_can_be_closed() -> None:
    async def main() -> list[Outcome]:
        engine = RunningEngine(scripted_engine())
        waiting = asyncio.ensure_future(all_of(engine.outcomes(free("a"))))
        await asyncio.sleep(0)
        await engine.close(0.0)
        return await waiting

    [failed] = guarded(main)
    assert isinstance(failed, Failed)


def test_two_event_loops_can_ask_one_engine() -> None:
    engine = RunningEngine(scripted_engine())
    engine.start()
    ends: list[Outcome] = []

    def ask(name: str) -> None:
        ends.append(guarded(lambda: all_of(engine.outcomes(free(name))))[-1])

    threads = [threading.Thread(target=ask, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [type(end) for end in ends] == [Finished] * 4
    guarded(lambda: engine.close(0.0))


def test_a_request_whose_loop_was_closed_is_aborted_and_the_others_go_on() -> None:
    runner = GatedRunner()
    inner = scripted_engine(runner)
    engine = RunningEngine(inner)
    engine.start()
    lost = engine.outcomes(free("lost", 60))
    loop = asyncio.new_event_loop()
    loop.run_until_complete(anext(lost))
    loop.close()
    runner.gate.set()

    async def main() -> list[Outcome]:
        outcomes = await all_of(engine.outcomes(free("b")))
        await engine.close(60.0)
        return outcomes

    assert isinstance(guarded(main)[-1], Finished)
    assert inner.unfinished == 0


@attrs.frozen
class Caller:
    """A request, and how its reader behaves: reads all, or goes after so many outcomes."""

    request: Request
    reads: int | None


REQUESTS = st.one_of(
    st.builds(free, st.just(""), st.integers(1, 12)),
    st.sampled_from([picky("", "yes", "no"), picky("", "refuse"), picky("", "raise"), Request(id="", prompt=())]),
    # 7 is what the model fails on.
    st.just(Request(id="", prompt=(7,))),
)
CALLERS = st.lists(st.builds(Caller, REQUESTS, st.none() | st.integers(0, 4)), min_size=1, max_size=8)


async def call(engine: RunningEngine, caller: Caller) -> list[Outcome]:
    """All that a reader is told. One that goes does so while its next outcome may be on its way."""
    async with aclosing(engine.outcomes(caller.request)) as outcomes:
        if caller.reads is None:
            return [outcome async for outcome in outcomes]
        told = [await anext(outcomes, Aborted()) for _ in range(caller.reads)]
        waiting = asyncio.ensure_future(anext(outcomes, Aborted()))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return told


@settings(max_examples=60)
@given(callers=CALLERS, breaks_at=st.none() | st.integers(0, 12), grace=st.sampled_from([None, 0.0, 60.0]))
def test_every_reader_is_told_one_end_and_the_engine_keeps_nothing(
    callers: list[Caller], breaks_at: int | None, grace: float | None
) -> None:
    """With a bug in some step, with a shutdown in the midst of it, with readers that go."""
    runner = ScriptedRunner()
    runner.fail_on = 7
    inner = scripted_engine(runner)
    inner.breaks_at = breaks_at
    named = [
        attrs.evolve(each, request=attrs.evolve(each.request, id=str(index))) for index, each in enumerate(callers)
    ]

    async def main() -> list[list[Outcome]]:
        async with running(inner) as engine:
            tasks = [asyncio.ensure_future(call(engine, caller)) for caller in named]
            await asyncio.sleep(0)
            if grace is not None:
                await engine.close(grace)
            told = await asyncio.gather(*tasks)
            await engine.close(60.0)
            return told

    for caller, told in zip(named, guarded(main), strict=True):
        if caller.reads is None:
            assert ends_once(told)
            assert not isinstance(told[-1], Aborted), "nobody aborted it"
    assert inner.unfinished == 0 or breaks_at is not None
