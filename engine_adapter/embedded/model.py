"""The forward pass: a transformers decoder that works on rows of stored keys and values."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import attrs
import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from engine_adapter.embedded.attention import IMPLEMENTATION, RowsAttention
from engine_adapter.embedded.kv import KVRows
from engine_adapter.embedded.linear import use_onednn


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

    def decode(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """Appends one token or more to each of the rows 0..len(tokens)-1, in one forward pass.

        Returns:
            The logits after each row's last token, [len(tokens), logit_width].

        Raises:
            ValueError: there are no tokens, or none for one of these rows; there are not so many rows, or the tokens
                do not fit.
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
            UnsupportedModelError: the model keeps something else than all keys and values, asks its attention for more
                than to look at all of them, or is not made for `max_len`.
        """
        _check_kind(model)
        _check_positions(model, max_len)
        model.set_attn_implementation(IMPLEMENTATION)
        use_onednn(model)
        self._model = model.train(False)
        kind, layers, self.logit_width = _tried(model)
        _, kv_heads, _, head_dim = kind.keys
        self._query_group = kind.query[1] // kv_heads
        self._rows = KVRows(
            layers=layers,
            kv_heads=kv_heads,
            head_dim=head_dim,
            max_rows=max_rows,
            max_len=max_len,
            dtype=next(iter(kind.dtypes)),
            device=kind.device,
        )
        self.max_rows = max_rows
        self.max_len = max_len
        self.device = kind.device

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

    def decode(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """See `ModelRunner.decode`."""
        return self._logits(0, tokens)

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
        """Appends tokens to each of the rows from `first` on; the logits after the last of each."""
        with self._appending(first, tokens) as inputs:
            last = torch.tensor([len(each) for each in tokens], device=self.device).cumsum(0) - 1
            logits: torch.Tensor = self._model(**inputs, logits_to_keep=last).logits
            return logits[0].float()

    @contextmanager
    def _appending(self, first: int, tokens: Sequence[Sequence[int]]) -> Iterator[dict[str, Any]]:
        """What the model is called with to append tokens to each of the rows from `first` on.

        They are one sequence to all of the model but its attention: nothing is padded.
        """
        packed = [token for each in tokens for token in each]
        with self._rows.appending(first, [len(each) for each in tokens]) as window, torch.inference_mode():
            yield {
                "input_ids": torch.tensor([packed], dtype=torch.int64, device=self.device),
                "position_ids": window.positions[None],
                "attending": RowsAttention(self._rows, window, self._query_group),
                "use_cache": False,
            }


def _check_kind(model: PreTrainedModel) -> None:
    """Refuses a model that attention to rows of all keys and values is not right for.

    transformers itself says whether a model takes its attention from outside, whether an attention looks only back,
    and which cache each layer needs. What a layer wants of its attention shows when it is `_tried`.
    """
    name = type(model).__name__
    if not model.is_backend_compatible():  # type: ignore[no-untyped-call]  # transformers gives it no types
        raise UnsupportedModelError(f"{name} computes attention in its own way")
    if not all(getattr(module, "is_causal", True) for module in model.modules()):
        raise UnsupportedModelError(f"{name} attends to later tokens")
    kinds = {type(layer) for layer in DynamicCache(config=model.config).layers}
    if others := sorted(kind.__name__ for kind in kinds - {DynamicLayer}):
        raise UnsupportedModelError(f"{name} needs caches of other kinds: {', '.join(others)}")


def _check_positions(model: PreTrainedModel, max_len: int) -> None:
    """Refuses rows that would change how a model encodes positions once one of them is long: with it, what the others
    get and what is stored would be wrong."""
    config = model.config.get_text_config(decoder=True)
    rope = getattr(config, "rope_parameters", None) or {}
    for parameters in [rope] if "rope_type" in rope else rope.values():  # else one for each type of layer
        match parameters:
            case {"rope_type": "longrope", "original_max_position_embeddings": int(longest)}:
                pass
            case {"rope_type": "dynamic"}:
                longest = config.max_position_embeddings
            case _:
                continue
        if max_len > longest:
            name = type(model).__name__
            raise UnsupportedModelError(
                f"{name} encodes positions otherwise beyond {longest} tokens: a max_len of {max_len} is too high"
            )


@attrs.frozen
class _Kind:
    """What a layer calls its attention with."""

    query: torch.Size
    keys: torch.Size
    values: torch.Size
    dtypes: frozenset[torch.dtype]
    device: torch.device

    @property
    def is_supported(self) -> bool:
        """Whether equally many query heads belong to each key head, and keys and values are alike, of two tokens."""
        _, heads, *rest = self.query
        one, kv_heads, *stored = self.keys
        return (
            self.keys == self.values
            and rest == stored
            and (one, stored[0], heads % kv_heads) == (1, 2, 0)
            and len(self.dtypes) == 1
        )


class _Trial:
    """`Attending` that takes notes, and attends to nothing."""

    def __init__(self) -> None:
        self.layers: list[int] = []
        self.kinds: set[_Kind] = set()

    def attend(
        self, layer: int, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scaling: float | None
    ) -> torch.Tensor:
        """See `Attending.attend`."""
        self.layers.append(layer)
        dtypes = frozenset(part.dtype for part in (query, keys, values))
        self.kinds.add(_Kind(query.shape, keys.shape, values.shape, dtypes, keys.device))
        one, heads, tokens, _ = query.shape
        return values.new_zeros((one, tokens, heads, values.shape[-1]))


def _tried(model: PreTrainedModel) -> tuple[_Kind, int, int]:
    """Runs two tokens: how all layers attend, how many there are, and the logits' width.

    Configurations name these in many ways; what the model does is certain.
    """
    name = type(model).__name__
    trial = _Trial()
    tokens = torch.zeros((1, 2), dtype=torch.int64, device=model.device)
    positions = torch.arange(2, device=model.device)
    try:
        with torch.inference_mode():
            logits = model(
                input_ids=tokens,
                position_ids=positions[None],
                attending=trial,
                use_cache=False,
                logits_to_keep=positions[1:],
            ).logits
    except Exception as error:  # the model's code may raise anything
        raise UnsupportedModelError(f"{name} failed on its first tokens: {error}") from error
    layers = len(DynamicCache(config=model.config).layers)
    if sorted(trial.layers) != list(range(layers)):
        raise UnsupportedModelError(f"{name} calls attention for the layers {trial.layers}, of {layers}")
    kind, *others = trial.kinds
    if others or not kind.is_supported:
        raise UnsupportedModelError(f"the layers of {name} do not all attend to keys and values of one shape")
    if logits.shape[:2] != (1, 1):
        raise UnsupportedModelError(f"{name} computes logits for tokens that none are wanted for")
    return kind, layers, logits.shape[-1]
