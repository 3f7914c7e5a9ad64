"""What a request's logit bias and penalties do to the logits of a row: a few tokens of it, the others stay."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt

from engine_adapter.sampling.params import SamplingParams

Floats = npt.NDArray[np.float32]
Tokens = npt.NDArray[np.int64]

_ROOM: Final = 64


@attrs.frozen(eq=False)
class LogitChanges:
    """The tokens of one row whose logits change, and how. Arrays [m].

    Attributes:
        tokens: int64, distinct, in any order; those that a row of logits does not have are passed over.
        bias: float32, added first.
        repetition: float32, above 0; divides what is then positive, and multiplies the rest.
        penalty: float32, subtracted last.
    """

    tokens: Tokens
    bias: Floats
    repetition: Floats
    penalty: Floats

    def changed(self, logits: Floats, at: npt.NDArray[np.intp] | slice = slice(None)) -> Floats:
        """The new values of ``logits``, which are those of the tokens at the indices ``at`` of `tokens`."""
        biased = logits + self.bias[at]
        repetition = self.repetition[at]
        changed: Floats = np.where(biased > 0, biased / repetition, biased * repetition) - self.penalty[at]
        return changed


class TokenCounts:
    """What one request's logits change by, kept up to date as its tokens come.

    Args:
        params: its parameters.
        prompt: its prompt, of which the repetition penalty takes notice.
    """

    def __init__(self, params: SamplingParams, prompt: Iterable[int] = ()) -> None:
        self._params = params
        self._at: dict[int, int] = {}
        self._tokens = np.zeros(_ROOM, dtype=np.int64)
        self._bias = np.zeros(_ROOM, dtype=np.float32)
        self._is_seen = np.zeros(_ROOM, dtype=np.bool_)
        self._generated = np.zeros(_ROOM, dtype=np.int32)
        self._output: list[int] = []
        for token, bias in params.logit_bias:
            index = self._index(token)  # before the arrays are looked at: it may replace them
            self._bias[index] = bias
        if params.repetition_penalty != 1.0:
            for token in prompt:
                index = self._index(token)
                self._is_seen[index] = True

    def changes(self, output: Sequence[int], position: int) -> LogitChanges | None:
        """What holds for the token at ``position`` of the output, whose first tokens are ``output``; None for nothing.

        Counts only what is new since the last call, unless the output has changed or the position gone back (drafts).

        Raises:
            ValueError: there are penalties, and ``output`` does not reach up to ``position``.
        """
        if self._params.penalizes:
            self._count(output, position)
        if not (count := len(self._at)):
            return None
        repetition, generated = self._params.repetition_penalty, self._generated[:count]
        penalty = self._params.frequency_penalty * generated + self._params.presence_penalty * (generated > 0)
        return LogitChanges(
            tokens=self._tokens[:count],
            bias=self._bias[:count],
            repetition=np.where(self._is_seen[:count] | (generated > 0), repetition, 1.0).astype(np.float32),
            penalty=penalty.astype(np.float32),
        )

    def _count(self, output: Sequence[int], position: int) -> None:
        if len(output) < position:
            raise ValueError(f"the penalties of position {position} need its {position} tokens, not {len(output)}")
        if len(self._output) > position or self._output != list(output[: len(self._output)]):
            self._forget_behind(output[:position])
        for token in output[len(self._output) : position]:
            index = self._index(token)
            self._generated[index] += 1
            self._output.append(token)

    def _forget_behind(self, output: Sequence[int]) -> None:
        """Takes back what was counted behind the tokens that both have in common."""
        pairs = zip(self._output, output, strict=False)
        common = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        for token in self._output[common:]:
            self._generated[self._at[token]] -= 1
        del self._output[common:]

    def _index(self, token: int) -> int:
        """Where the token is in the arrays; they only grow, so that views of them which were handed out stay true."""
        if (index := self._at.get(token)) is None:
            index = len(self._at)
            if index == len(self._tokens):
                self._grow()
            self._tokens[index] = token
            self._at[token] = index
        return index

    def _grow(self) -> None:
        for name in ("_tokens", "_bias", "_is_seen", "_generated"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
