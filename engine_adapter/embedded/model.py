"""The forward pass: a transformers decoder that works on rows of stored keys and values."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from engine_adapter.embedded.kv import KVRows, WindowCache


class UnsupportedModelError(Exception):
    """A model that would not run correctly here. The message says why."""


class ModelRunner(Protocol):
    """What the engine needs of a model: a forward pass over numbered rows, each of which holds one sequence.

    Logits are float32 on `device`. They are the caller's, but were made in inference mode: read them, or work on a
    clone.
    """

    @property
    def logit_width(self) -> int:
        """Columns of the logits: at least the size of the vocabulary."""

    @property
    def max_rows(self) -> int:
        """How many rows there are."""

    @property
    def max_len(self) -> int:
        """How many tokens a row can hold."""

    @property
    def device(self) -> torch.device:
        """Where the logits are."""

    def prefill(self, row: int, tokens: Sequence[int], start: int) -> torch.Tensor:
        """Runs one chunk of a row's prompt at the positions start..start+len(tokens)-1.

        `start` is the row's length: chunks come in order, without gaps.

        Returns:
            The logits after the chunk's last token, [logit_width].

        Raises:
            ValueError: `start` is not the row's length, there are no tokens, or they do not fit.
        """

    def decode(self, tokens: Sequence[int]) -> torch.Tensor:
        """Appends one token to each of the rows 0..len(tokens)-1.

        Returns:
            The logits after each row's token, [len(tokens), logit_width].

        Raises:
            ValueError: there are no tokens, more tokens than rows, or one of these rows is full.
        """

    def swap(self, a: int, b: int) -> None:
        """Exchanges two rows, so that those which decode can be kept together at the front."""

    def truncate(self, row: int, length: int) -> None:
        """Forgets what the row holds beyond its first `length` tokens; 0 frees it."""

    def length(self, row: int) -> int:
        """How many tokens the row holds."""


@runtime_checkable
class SupportsPooling(Protocol):
    """A `ModelRunner` that also shows what it made of a prompt, for embeddings."""

    def prefill_pooled(self, row: int, tokens: Sequence[int], start: int) -> torch.Tensor:
        """`ModelRunner.prefill`, but for what it returns.

        Returns:
            The sum of the last hidden states of the chunk's tokens, [hidden size]: in float64, so that it hardly
            matters how a prompt is cut.
        """


class TransformersRunner:
    """A `ModelRunner`, with `SupportsPooling`, on a transformers decoder whose every layer attends to its whole past
    (Llama, Qwen, Mistral).

    A forward pass either changes the rows or raises, whatever it raises.
    """

    def __init__(self, model: PreTrainedModel, *, max_rows: int, max_len: int) -> None:
        """Takes over a loaded model, on the device and with the dtype that it has.

        Args:
            max_rows: how many sequences can be held at once.
            max_len: how many tokens each may have; at most what the model was made for.

        Raises:
            UnsupportedModelError: the model keeps something else than all keys and values.
        """
        _check_kind(model)
        model.set_attn_implementation("sdpa")
        self._model = model.train(False)
        stored, self.logit_width = _tried(model)
        layers, _, kv_heads, head_dim = stored.shape
        self._rows = KVRows(
            layers=layers,
            kv_heads=kv_heads,
            head_dim=head_dim,
            max_rows=max_rows,
            max_len=max_len,
            dtype=stored.dtype,
            device=stored.device,
        )
        self.max_rows = max_rows
        self.max_len = max_len
        self.device = stored.device

    def prefill(self, row: int, tokens: Sequence[int], start: int) -> torch.Tensor:
        """See `ModelRunner.prefill`."""
        self._check_start(row, start)
        return self._logits(row, [tokens])[0]

    def prefill_pooled(self, row: int, tokens: Sequence[int], start: int) -> torch.Tensor:
        """See `SupportsPooling.prefill_pooled`."""
        self._check_start(row, start)
        with self._appending(row, [tokens]) as inputs:
            states: torch.Tensor = self._model.base_model(**inputs).last_hidden_state
            return states[0].double().sum(dim=0)

    def decode(self, tokens: Sequence[int]) -> torch.Tensor:
        """See `ModelRunner.decode`."""
        return self._logits(0, [[token] for token in tokens])

    def swap(self, a: int, b: int) -> None:
        """See `ModelRunner.swap`."""
        self._rows.swap(a, b)

    def truncate(self, row: int, length: int) -> None:
        """See `ModelRunner.truncate`."""
        self._rows.truncate(row, length)

    def length(self, row: int) -> int:
        """See `ModelRunner.length`."""
        return self._rows.length(row)

    def _check_start(self, row: int, start: int) -> None:
        if start != self._rows.length(row):
            raise ValueError(f"a chunk at {start} does not continue row {row}, which holds {self._rows.length(row)}")

    def _logits(self, first: int, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """Appends equally many tokens to each of the rows from `first` on; the logits after the last of each."""
        with self._appending(first, tokens) as inputs:
            logits: torch.Tensor = self._model(**inputs, logits_to_keep=1).logits
            return logits[:, -1].float()

    @contextmanager
    def _appending(self, first: int, tokens: Sequence[Sequence[int]]) -> Iterator[dict[str, Any]]:
        """What the model is called with to append equally many tokens to each of the rows from `first` on."""
        if not tokens or not tokens[0]:
            raise ValueError("no tokens to run")
        input_ids = torch.tensor(tokens, dtype=torch.int64, device=self.device)
        with self._rows.appending(first, *input_ids.shape) as window, torch.inference_mode():
            yield {
                "input_ids": input_ids,
                "position_ids": window.positions,
                "attention_mask": window.attention_mask(self._model.dtype),
                "cache": WindowCache(self._rows, window),
                "use_cache": True,
            }


def _check_kind(model: PreTrainedModel) -> None:
    """Refuses a model that rows of all keys and values, under a mask of ours, are not right for.

    transformers itself says whether a model takes its attention, and with it the mask, from outside, whether an
    attention looks only back, and which cache each layer needs.
    """
    name = type(model).__name__
    if not model.is_backend_compatible():  # type: ignore[no-untyped-call]  # transformers gives it no types
        raise UnsupportedModelError(f"{name} computes attention in its own way")
    if not all(getattr(module, "is_causal", True) for module in model.modules()):
        raise UnsupportedModelError(f"{name} attends to later tokens")
    kinds = {type(layer) for layer in DynamicCache(config=model.config).layers}
    if others := sorted(kind.__name__ for kind in kinds - {DynamicLayer}):
        raise UnsupportedModelError(f"{name} needs caches of other kinds: {', '.join(others)}")


def _tried(model: PreTrainedModel) -> tuple[torch.Tensor, int]:
    """Runs one token: the keys that the layers store for it, [layers, 1, kv_heads, head_dim], and the logits' width.

    Configurations name these sizes in many ways; what the model does is certain.
    """
    name = type(model).__name__
    cache = DynamicCache(config=model.config)
    token = torch.zeros((1, 1), dtype=torch.int64, device=model.device)
    try:
        with torch.no_grad():
            logits = model(input_ids=token, cache=cache, use_cache=True).logits
    except Exception as error:  # the model's code may raise anything
        raise UnsupportedModelError(f"{name} failed on its first token: {error}") from error
    layers = [layer for layer in cache.layers if isinstance(layer, DynamicLayer)]
    stored = [part for layer in layers for part in (layer.keys, layer.values) if part is not None]
    if len(stored) != 2 * len(cache.layers) or len({part.shape for part in stored}) != 1:
        raise UnsupportedModelError(f"the layers of {name} do not all store keys and values of one shape")
    return torch.stack(stored[::2])[:, :, :, 0], logits.shape[-1]
