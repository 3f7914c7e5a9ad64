"""What the tokens so far come to, however they are told."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_adapter.sampling import SamplingBatch, SamplingParams, TokenCounts
from tests.sampling import reference

tokens = st.integers(0, 200)
outputs = st.lists(tokens, max_size=150)
params = st.builds(
    SamplingParams,
    presence_penalty=st.floats(-2.0, 2.0),
    frequency_penalty=st.floats(-2.0, 2.0),
    repetition_penalty=st.floats(0.5, 2.0),
    logit_bias=st.dictionaries(tokens, st.floats(-100.0, 100.0), max_size=100),
)


def applied(counts: TokenCounts, output: list[int], position: int) -> list[float]:
    logits = np.linspace(-5.0, 5.0, 201, dtype=np.float32)
    if change := counts.changes(output, position):
        logits[change.tokens] = change.changed(logits[change.tokens])
    return [float(logit) for logit in logits]


@given(params=params, prompt=outputs, calls=st.lists(outputs, max_size=4), data=st.data())
def test_counts_are_of_the_tokens_before_the_position(
    params: SamplingParams, prompt: list[int], calls: list[list[int]], data: st.DataObject
) -> None:
    """Whatever was asked before: one token more, drafts that were given up, another text."""
    counts = TokenCounts(params, prompt)
    for output in calls:
        position = data.draw(st.integers(0, len(output)))
        logits = [float(logit) for logit in np.linspace(-5.0, 5.0, 201, dtype=np.float32)]
        assert applied(counts, output, position) == reference.changed(logits, params, prompt, output[:position])


def test_what_was_handed_out_stays_as_it_was() -> None:
    counts = TokenCounts(SamplingParams(frequency_penalty=1.0, logit_bias={3: 1.0}))
    change = counts.changes([5], 1)
    assert change is not None
    counts.changes([5, 5, 6, *range(100)], 103)
    assert (change.tokens.tolist(), change.penalty.tolist()) == ([3, 5], [0.0, 1.0])


def test_rows_of_one_request_count_up_to_their_own_positions() -> None:
    """Drafts: several rows of one request in one step."""
    batch = SamplingBatch()
    slots = [batch.join(SamplingParams(presence_penalty=0.5)), batch.join(SamplingParams())]
    rows = batch.rows([slots[0], slots[0], slots[1]], [1, 2, 0], [[4, 5], [4, 5], []])
    assert rows.changes is not None
    found = [None if change is None else change.tokens[change.penalty > 0].tolist() for change in rows.changes]
    assert found == [[4], [4, 5], None]


def test_a_slot_that_is_used_again_has_no_counts_of_the_last_request() -> None:
    batch = SamplingBatch()
    slot = batch.join(SamplingParams(logit_bias={1: 1.0}))
    assert batch.rows([slot], [0]).changes is not None
    batch.leave(slot)
    assert batch.join(SamplingParams()) == slot
    assert batch.rows([slot], [0]).changes is None


def test_tokens_that_penalties_need() -> None:
    batch = SamplingBatch()
    slot = batch.join(SamplingParams(presence_penalty=0.5))
    with pytest.raises(ValueError, match="the penalties of position 2 need its 2 tokens, not 1"):
        batch.rows([slot], [2], [[4]])
    with pytest.raises(ValueError, match="1 slots but 2 outputs"):
        batch.rows([slot], [0], [[], []])
