"""Chunked prefill and batched decoding give what transformers' own forward pass gives without any cache."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from transformers import (
    BertConfig,
    BertLMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
)

from engine_adapter.embedded.model import TransformersRunner, UnsupportedModelError

VOCABULARY, ROWS, LENGTH = 96, 4, 48
SETTINGS: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": LENGTH,
    # Ten times the usual: attention then depends much on what is seen, and a wrong mask or position shows.
    "initializer_range": 0.2,
    "attn_implementation": "eager",
}

# Both sides are float32 and differ in the order of sums; logits have a standard deviation of about 1.
CLOSE: dict[str, Any] = {"atol": 1e-4, "rtol": 1e-4}


def make_llama() -> LlamaForCausalLM:
    """A small random Llama with two query heads to each key head, and attention by the plain formula."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(num_key_value_heads=2, **SETTINGS))
    model.train(False)
    return model


LLAMA = make_llama()


def make_runner(model: PreTrainedModel = LLAMA) -> TransformersRunner:
    return TransformersRunner(copy.deepcopy(model), max_rows=ROWS, max_len=LENGTH)


def reference(tokens: Sequence[int]) -> torch.Tensor:
    """The logits after the last of the tokens, by transformers alone and without a cache."""
    with torch.no_grad():
        logits: torch.Tensor = LLAMA(input_ids=torch.tensor([tokens]), use_cache=False).logits
    return logits[0, -1]


TOKENS = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=12)
ROW = st.integers(0, ROWS - 1)


class RunnerMachine(RuleBasedStateMachine):
    """Any interleaving of chunks, decode steps, swaps, truncations and failures, against lists of tokens."""

    @initialize()
    def start(self) -> None:
        self.runner = make_runner()
        self.rows: list[list[int]] = [[] for _ in range(ROWS)]

    @rule(row=ROW, tokens=TOKENS)
    def prefill(self, row: int, tokens: list[int]) -> None:
        start = len(self.rows[row])
        if start + len(tokens) <= LENGTH:
            logits = self.runner.prefill(row, tokens, start)
            self.rows[row] += tokens
            torch.testing.assert_close(logits, reference(self.rows[row]), **CLOSE)

    @rule(tokens=TOKENS.filter(lambda tokens: len(tokens) <= ROWS))
    def decode(self, tokens: list[int]) -> None:
        if all(len(row) < LENGTH for row in self.rows[: len(tokens)]):
            logits = self.runner.decode(tokens)
            for row, token in zip(self.rows, tokens, strict=False):
                row.append(token)
            expected = torch.stack([reference(row) for row in self.rows[: len(tokens)]])
            torch.testing.assert_close(logits, expected, **CLOSE)

    @rule(a=ROW, b=ROW)
    def swap(self, a: int, b: int) -> None:
        self.runner.swap(a, b)
        self.rows[a], self.rows[b] = self.rows[b], self.rows[a]

    @rule(row=ROW, length=st.integers(0, LENGTH))
    def truncate(self, row: int, length: int) -> None:
        self.runner.truncate(row, length)
        del self.rows[row][length:]

    @rule(row=ROW)
    def fail(self, row: int) -> None:
        """A token outside the vocabulary fails inside the model; the rows are as before."""
        if len(self.rows[row]) < LENGTH:
            with pytest.raises(IndexError):
                self.runner.prefill(row, [VOCABULARY], len(self.rows[row]))

    def teardown(self) -> None:
        for row, tokens in enumerate(getattr(self, "rows", [])):
            assert self.runner.length(row) == len(tokens)


TestRunner = RunnerMachine.TestCase
TestRunner.settings = settings(max_examples=20, stateful_step_count=20)


def test_greedy_continuations_in_one_batch_are_those_of_each_prompt_alone() -> None:
    alone = [[5, 6], list(range(20)), [9, 9, 2, 70, 31]]
    batched = copy.deepcopy(alone)
    runner = make_runner()
    for index, prompt in enumerate(batched):
        runner.prefill(index, prompt[:-1], 0)
    for _ in range(12):
        chosen = runner.decode([row[-1] for row in batched]).argmax(-1).tolist()
        for row, token, own in zip(batched, chosen, alone, strict=True):
            row.append(token)
            own.append(int(reference(own).argmax()))
    assert batched == alone


def test_a_sequence_that_became_nan_harms_neither_its_neighbour_nor_its_successor() -> None:
    poisoned = copy.deepcopy(LLAMA)
    with torch.no_grad():
        poisoned.model.embed_tokens.weight[7] = torch.nan
    runner = make_runner(poisoned)
    runner.prefill(0, [1, 2, 7, 3], 0)
    runner.prefill(1, [4, 5], 0)
    logits = runner.decode([6, 6])
    assert logits[0].isnan().all()
    assert logits[1].isfinite().all()
    runner.truncate(0, 0)
    runner.prefill(0, [8], 0)
    assert runner.decode([6, 6]).isfinite().all()


def test_logits_are_float32_whatever_the_model_computes_in() -> None:
    runner = make_runner(copy.deepcopy(LLAMA).bfloat16())
    assert runner.logit_width == VOCABULARY
    assert runner.prefill(0, [1, 2, 3], 0).shape == (VOCABULARY,)
    logits = runner.decode([4])
    assert (logits.shape, logits.dtype) == ((1, VOCABULARY), torch.float32)
    torch.testing.assert_close(logits[0], reference([1, 2, 3, 4]), atol=0.2, rtol=0.2)


def test_the_output_layer_is_run_for_the_last_position_alone() -> None:
    model = copy.deepcopy(LLAMA)
    runner = TransformersRunner(model, max_rows=ROWS, max_len=LENGTH)
    shapes: list[torch.Size] = []
    model.lm_head.register_forward_pre_hook(lambda layer, inputs: shapes.append(inputs[0].shape))
    runner.prefill(0, [1, 2, 3, 4], 0)
    runner.decode([5, 6])
    assert [shape[:2] for shape in shapes] == [(1, 1), (2, 1)]


def test_what_does_not_continue_or_fit_is_refused_and_changes_nothing() -> None:
    runner = make_runner()
    runner.prefill(0, list(range(LENGTH)), 0)
    with pytest.raises(ValueError, match="does not continue row 1, which holds 0"):
        runner.prefill(1, [1], 3)
    with pytest.raises(ValueError, match="cannot take 1"):
        runner.decode([1, 2])
    with pytest.raises(ValueError, match="cannot take 49"):
        runner.prefill(2, [0] * (LENGTH + 1), 0)
    with pytest.raises(ValueError, match="no tokens"):
        runner.prefill(2, [], 0)
    with pytest.raises(ValueError, match="no tokens"):
        runner.decode([])
    with pytest.raises(ValueError, match="cannot take"):
        runner.decode([1] * (ROWS + 1))
    assert [runner.length(row) for row in range(ROWS)] == [LENGTH, 0, 0, 0]


def test_models_that_rows_are_wrong_for_are_refused_with_the_reason() -> None:
    sliding = MistralForCausalLM(MistralConfig(sliding_window=8, num_key_value_heads=2, **SETTINGS))
    with pytest.raises(UnsupportedModelError, match="DynamicSlidingWindowLayer"):
        make_runner(sliding)
    encoder = BertLMHeadModel(BertConfig(is_decoder=False, **SETTINGS))
    with pytest.raises(UnsupportedModelError, match="attends to later tokens"):
        make_runner(encoder)
