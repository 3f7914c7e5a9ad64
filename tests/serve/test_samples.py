"""Samples of one request: each ends once, in any mix of successes and failures."""

import asyncio
from contextlib import aclosing
from random import Random

import attrs
import hypothesis.strategies as st
import pytest
from hypothesis import given

from engine_adapter.embedded.request import Request
from engine_adapter.outcome import Aborted, Delta, Failed, Finished, FinishReason, Outcome, Usage
from engine_adapter.sampling import SamplingParams
from engine_adapter.serve.samples import SampleOutcome, Samples, failure_of, sampled
from structout import Choice, ErrorKind, GrammarError
from tests.serve.support import ends_once, guarded, running, scripted_engine

SEEDED = Request(id="a", prompt=(1,), max_tokens=8, stop_token_ids=(), sampling=SamplingParams(seed=2**63 - 2))
BROKEN = GrammarError(kind=ErrorKind.BACKEND_FAILURE, message="broken")


def run(request: Request, n: int) -> list[list[Outcome]]:
    """What each of the samples said."""

    async def main() -> list[list[Outcome]]:
        said: list[list[Outcome]] = [[] for _ in range(n)]
        async with running(scripted_engine()) as engine:
            async for each in sampled(engine, request, n):
                said[each.index].append(each.outcome)
        return said

    return guarded(main)


@pytest.mark.parametrize("n", [1, 3, 9])
def test_each_sample_says_its_own_and_ends_once(n: int) -> None:
    said = run(SEEDED, n)
    assert all(map(ends_once, said))
    texts = [end.token_ids for [*_, end] in said if isinstance(end, Finished)]
    assert len(texts) == n
    assert len(set(texts)) == n, "the samples have seeds of their own, also at the end of the range"
    assert [end for [*_, end] in run(SEEDED, n)] == [end for [*_, end] in said]


def test_a_grammar_that_fails_fails_every_sample() -> None:
    said = run(attrs.evolve(SEEDED, spec=Choice(("refuse",)), stop_token_ids=None), 3)
    assert [type(end) for [end] in said] == [Failed] * 3


def test_closing_aborts_all_that_run() -> None:
    inner = scripted_engine()

    async def main() -> None:
        async with running(inner) as engine:
            async with aclosing(sampled(engine, attrs.evolve(SEEDED, max_tokens=60), 3)) as outcomes:
                await anext(outcomes)
            await engine.close(60.0)

    guarded(main)
    assert inner.unfinished == 0


def test_a_cancelled_reader_takes_its_samples_with_it() -> None:
    inner = scripted_engine()

    async def main() -> None:
        async with running(inner) as engine:

            async def read() -> None:
                async for _ in sampled(engine, attrs.evolve(SEEDED, max_tokens=60), 3):
                    pass

            task = asyncio.ensure_future(read())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await engine.close(60.0)

    guarded(main)
    assert inner.unfinished == 0


def finished(tokens: int) -> Finished:
    return Finished(
        text="x" * tokens,
        token_ids=tuple(range(tokens)),
        reason=FinishReason.STOP,
        usage=Usage(prompt_tokens=2, completion_tokens=tokens + 1),
    )


ENDS = st.one_of(st.integers(0, 3).map(finished), st.just(Failed(BROKEN)), st.just(Aborted()))


@given(st.lists(st.tuples(st.integers(0, 3), ENDS), min_size=1, max_size=5), st.randoms())
def test_the_whole_fails_when_all_samples_do_and_usage_adds_up(
    each: list[tuple[int, Finished | Failed | Aborted]], random: Random
) -> None:
    arrivals = [
        SampleOutcome(i, Delta(text="x", token_ids=(1,))) for i, (deltas, _) in enumerate(each) for _ in range(deltas)
    ]
    random.shuffle(arrivals)
    samples = Samples.of(len(each))
    for arrival in arrivals:
        samples.take(arrival)
    for index, (_, end) in enumerate(each):
        assert samples.error is None, "some samples have not ended"
        samples.take(SampleOutcome(index, end))
    has_finished = any(isinstance(end, Finished) for _, end in each)
    assert samples.error == (None if has_finished else failure_of(each[0][1]))
    total = sum(end.usage.completion_tokens if isinstance(end, Finished) else deltas for deltas, end in each)
    assert samples.usage(2) == Usage(prompt_tokens=2, completion_tokens=total)
