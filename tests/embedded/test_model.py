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
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    DiffLlamaConfig,
    DiffLlamaForCausalLM,
    DogeConfig,
    DogeForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    NemotronConfig,
    NemotronForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
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


def make_qwen() -> Qwen3ForCausalLM:
    """A small random Qwen with as many key heads, which together are wider than the model."""
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(Qwen3Config(num_key_value_heads=4, head_dim=16, **SETTINGS))
    model.train(False)
    return model


LLAMA = make_llama()
QWEN = make_qwen()


def make_runner(model: PreTrainedModel = LLAMA) -> TransformersRunner:
    return TransformersRunner(copy.deepcopy(model), max_rows=ROWS, max_len=LENGTH)


def reference(tokens: Sequence[int], model: PreTrainedModel = LLAMA) -> torch.Tensor:
    """The logits after the last of the tokens, by transformers alone and without a cache."""
    with torch.no_grad():
        logits: torch.Tensor = model(input_ids=torch.tensor([list(tokens)]), use_cache=False).logits
    return logits[0, -1]


class Fails:
    """Once armed, lets a forward pass get past its first layers, with NaN in what they store, and no further."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.is_armed = False
        first, _, third = model.base_model.get_submodule("layers").children()
        first.register_forward_pre_hook(self.poison)
        third.register_forward_pre_hook(self.fail)

    def poison(self, _layer: torch.nn.Module, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        return (inputs[0] * torch.nan,) if self.is_armed else inputs

    def fail(self, _layer: torch.nn.Module, _inputs: object) -> None:
        if self.is_armed:
            raise RuntimeError("the third layer failed")


TOKEN = st.integers(0, VOCABULARY - 1)
TOKENS = st.lists(TOKEN, min_size=1, max_size=12)
NEW = st.lists(st.one_of(st.lists(TOKEN, min_size=1, max_size=1), TOKENS), min_size=1, max_size=ROWS)
"""What each row gets in a decode step; one token, more often than not."""
ROW = st.integers(0, ROWS - 1)


class RunnerMachine(RuleBasedStateMachine):
    """Any interleaving of chunks, decode steps, swaps, truncations and failures, against lists of tokens."""

    @initialize(model=st.sampled_from([LLAMA, QWEN]))
    def start(self, model: PreTrainedModel) -> None:
        self.model = model
        copied = copy.deepcopy(model)
        self.runner = TransformersRunner(copied, max_rows=ROWS, max_len=LENGTH)
        self.failure = Fails(copied)
        self.rows: list[list[int]] = [[] for _ in range(ROWS)]

    @rule(row=ROW, tokens=TOKENS)
    def prefill(self, row: int, tokens: list[int]) -> None:
        start = len(self.rows[row])
        if start + len(tokens) <= LENGTH:
            logits = self.runner.prefill(row, tokens, start)
            self.rows[row] += tokens
            torch.testing.assert_close(logits, reference(self.rows[row], self.model), **CLOSE)

    @rule(new=NEW)
    def decode(self, new: list[list[int]]) -> None:
        if self.fits(new):
            logits = self.runner.decode(new)
            for row, tokens in zip(self.rows, new, strict=False):
                row += tokens
            expected = torch.stack([reference(row, self.model) for row in self.rows[: len(new)]])
            torch.testing.assert_close(logits, expected, **CLOSE)

    def fits(self, new: list[list[int]]) -> bool:
        return all(len(row) + len(tokens) <= LENGTH for row, tokens in zip(self.rows, new, strict=False))

    @rule(a=ROW, b=ROW)
    def swap(self, a: int, b: int) -> None:
        self.runner.swap(a, b)
        self.rows[a], self.rows[b] = self.rows[b], self.rows[a]

    @rule(row=ROW, length=st.integers(0, LENGTH))
    def truncate(self, row: int, length: int) -> None:
        self.runner.truncate(row, length)
        del self.rows[row][length:]

    @rule(new=NEW)
    def fail_at_once(self, new: list[list[int]]) -> None:
        """A token outside the vocabulary; the rows are as before."""
        new[-1][-1] = VOCABULARY
        if self.fits(new):
            with pytest.raises(IndexError):
                self.runner.decode(new)

    @rule(new=NEW)
    def fail_midway(self, new: list[list[int]]) -> None:
        """What the layers before stored is gone from the rows, or it would spread: nothing hides a NaN."""
        if self.fits(new):
            self.failure.is_armed = True
            with pytest.raises(RuntimeError, match="the third layer failed"):
                self.runner.decode(new)
            self.failure.is_armed = False

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
        chosen = runner.decode([row[-1:] for row in batched]).argmax(-1).tolist()
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
    logits = runner.decode([[6], [6]])
    assert logits[0].isnan().all()
    assert logits[1].isfinite().all()
    runner.truncate(0, 0)
    runner.prefill(0, [8], 0)
    assert runner.decode([[6], [6]]).isfinite().all()


def test_logits_are_float32_whatever_the_model_computes_in() -> None:
    runner = make_runner(copy.deepcopy(LLAMA).bfloat16())
    assert runner.logit_width == VOCABULARY
    assert runner.prefill(0, [1, 2, 3], 0).shape == (VOCABULARY,)
    logits = runner.decode([[4]])
    assert (logits.shape, logits.dtype) == ((1, VOCABULARY), torch.float32)
    torch.testing.assert_close(logits[0], reference([1, 2, 3, 4]), atol=0.2, rtol=0.2)


def test_no_token_is_padded_and_the_output_layer_runs_for_the_last_of_each_row_alone() -> None:
    model = copy.deepcopy(LLAMA)
    runner = TransformersRunner(model, max_rows=ROWS, max_len=LENGTH)
    shapes: list[torch.Size] = []
    for module in (model.model.layers[0].mlp, model.lm_head):
        module.register_forward_pre_hook(lambda layer, inputs: shapes.append(inputs[0].shape))
    runner.prefill(0, [1, 2, 3, 4], 0)
    runner.decode([[5], [6]])
    runner.decode([[5], [6, 7, 8, 9], [1, 2]])
    assert [shape[:2] for shape in shapes] == [(1, 4), (1, 1), (1, 2), (1, 2), (1, 7), (1, 3)]


def test_what_does_not_continue_or_fit_is_refused_and_changes_nothing() -> None:
    runner = make_runner()
    runner.prefill(0, list(range(LENGTH)), 0)
    with pytest.raises(ValueError, match="does not continue row 1, which holds 0"):
        runner.prefill(1, [1], 3)
    with pytest.raises(ValueError, match=r"cannot take \[1, 1\]"):
        runner.decode([[1], [2]])
    with pytest.raises(ValueError, match=r"cannot take \[49\]"):
        runner.prefill(2, [0] * (LENGTH + 1), 0)
    with pytest.raises(ValueError, match="each needs one at least"):
        runner.prefill(2, [], 0)
    without: list[list[list[int]]] = [[], [[]], [[1], []]]
    for tokens in without:
        with pytest.raises(ValueError, match="each needs one at least"):
            runner.decode(tokens)
    with pytest.raises(ValueError, match="cannot take"):
        runner.decode([[1]] * (ROWS + 1))
    assert [runner.length(row) for row in range(ROWS)] == [LENGTH, 0, 0, 0]


FULL: dict[str, Any] = {**SETTINGS, "layer_types": ["full_attention"] * 3, "num_key_value_heads": 2, "head_dim": 8}


@pytest.mark.parametrize(
    ("model", "config", "reason"),
    [
        (MistralForCausalLM, MistralConfig(sliding_window=8, num_key_value_heads=2, **SETTINGS), "SlidingWindowLayer"),
        (BertLMHeadModel, BertConfig(is_decoder=False, **SETTINGS), "attends to later tokens"),
        (Gemma2ForCausalLM, Gemma2Config(attn_logit_softcapping=50.0, **FULL), "attention with softcap"),
        (GptOssForCausalLM, GptOssConfig(num_local_experts=2, **FULL), "attention with s_aux"),
        (DogeForCausalLM, DogeConfig(num_key_value_heads=2, **SETTINGS), "attention with attention_mask"),
        (NemotronForCausalLM, NemotronConfig(num_key_value_heads=2, **SETTINGS), "not handed"),
        (DiffLlamaForCausalLM, DiffLlamaConfig(num_key_value_heads=2, **SETTINGS), r"\[0, 0, 1, 1, 2, 2\]"),
        (
            DeepseekV3ForCausalLM,
            DeepseekV3Config(q_lora_rank=8, kv_lora_rank=8, v_head_dim=8, first_k_dense_replace=3, **SETTINGS),
            "keys and values of one shape",
        ),
    ],
)
def test_models_that_rows_are_wrong_for_are_refused_with_the_reason(
    model: type[PreTrainedModel], config: Any, reason: str
) -> None:
    with pytest.raises(UnsupportedModelError, match=f"{model.__name__}.*{reason}|{reason}.*{model.__name__}"):
        make_runner(model(config))


LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0] * 4,
    "long_factor": [3.0] * 4,
    "original_max_position_embeddings": 16,
}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}


@pytest.mark.parametrize(
    ("model", "config"),
    [
        (LlamaForCausalLM, LlamaConfig(rope_parameters=LONGROPE, **SETTINGS)),
        (LlamaForCausalLM, LlamaConfig(rope_parameters=DYNAMIC, **{**SETTINGS, "max_position_embeddings": 16})),
        (
            Gemma3ForCausalLM,
            Gemma3TextConfig(rope_parameters={"full_attention": LONGROPE, "sliding_attention": LONGROPE}, **FULL),
        ),
    ],
)
def test_rows_are_only_as_long_as_positions_mean_the_same(model: type[PreTrainedModel], config: Any) -> None:
    """A row beyond that would change what its neighbours get: the frequencies are one batch's."""
    loaded = model(config)
    loaded.train(False)
    with pytest.raises(UnsupportedModelError, match="beyond 16 tokens: a max_len of 48 is too high"):
        make_runner(loaded)
    runner = TransformersRunner(copy.deepcopy(loaded), max_rows=2, max_len=16)
    runner.prefill(0, list(range(1, 14)), 0)
    runner.prefill(1, [4], 0)
    logits = runner.decode([[14, 15, 16], [5]])
    expected = [reference(range(1, 17), loaded), reference([4, 5], loaded)]
    torch.testing.assert_close(logits, torch.stack(expected), **CLOSE)
