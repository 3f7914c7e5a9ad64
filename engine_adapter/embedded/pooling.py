"""Embeddings: the mean of a prompt's last hidden states, scaled to length 1.

A prompt is pooled as others are prefilled: in chunks, under the step's budget of tokens, in a KV row that it holds
until its last chunk is computed; and for half of the time at most, so that those who decode are half as fast at worst
(`sharing`).
"""

import torch


class Pool:
    """Adds up the last hidden states of one prompt's tokens, chunk by chunk."""

    def __init__(self) -> None:
        self._total: torch.Tensor | None = None

    def add(self, start: int, states: torch.Tensor) -> None:
        """Takes the sum of a chunk's hidden states, float64 [hidden size].

        ``start`` is the position of its first token; from position 0 on all is new: the prompt was preempted.
        """
        self._total = states if start == 0 or self._total is None else self._total + states

    def vector(self) -> tuple[float, ...]:
        """The embedding, in float32. The mean has the direction of the sum; where there is none, all is NaN.

        Raises:
            ValueError: nothing was added.
        """
        if self._total is None:
            raise ValueError("nothing was pooled")
        return tuple((self._total / self._total.norm()).float().tolist())
