"""Tokens that a request's own parameters forbid, whatever its grammar allows.

vLLM takes ``allowed_token_ids`` and ``bad_words`` from the logits after the bitmask, in its workers. What is left where
the two have nothing in common is a row of -inf, from which it samples some token all the same. So it is found out
before, where the row is filled.

The others need no such care: ``logit_bias`` is finite, and where the grammar allows nothing but the end, vLLM does not
mask that for ``min_tokens``.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from structout.backend import BitmaskRow
from structout.constraint import Constraint
from structout.errors import ErrorKind, Fault, GrammarError


class Withheld:
    """Of one sequence.

    Args:
        allowed: ids of the only tokens that may follow; None for all.
        bad_words: token ids of what must not be said; the last of them is forbidden behind the others.
        width: int32 words in a row.
        said: all tokens of the sequence so far, those before its constraint included; its owner appends to it.
    """

    def __init__(
        self, allowed: Iterable[int] | None, bad_words: Sequence[Sequence[int]], width: int, said: Sequence[int]
    ) -> None:
        self._allowed = None if allowed is None else _row(allowed, width)
        self._bad_words = [tuple(word) for word in bad_words]
        self._longest = max(map(len, self._bad_words), default=0)
        self._said = said
        self._before: tuple[int, ...] | None = None

    def empties(self, row: BitmaskRow, constraint: Constraint) -> GrammarError | None:
        """Why no token is left of a row that the constraint has filled; None if one is."""
        left = row if self._allowed is None else row & self._allowed
        names = ["allowed_token_ids"] if self._allowed is not None else []
        if left.any() and (forbidden := self._ends_of_bad_words(self._past(constraint))):
            left = left & ~_row(forbidden, row.size)
            names.append("bad_words")
        return None if left.any() else _nothing_left(" and ".join(names), constraint)

    def first_forbidden(self, drafts: Sequence[int], constraint: Constraint) -> int:
        """How many drafts, which may follow what the constraint has accepted, come before one that is withheld."""
        past = self._past(constraint)
        for place, token in enumerate(drafts):
            if self._forbids(token, (*past, *drafts[:place])):
                return place
        return len(drafts)

    def _forbids(self, token: int, past: tuple[int, ...]) -> bool:
        is_allowed = self._allowed is None or self._allowed[token // 32] >> (token % 32) & 1
        return not is_allowed or token in self._ends_of_bad_words(past)

    def _past(self, constraint: Constraint) -> tuple[int, ...]:
        """The last tokens of the sequence, at least as many as a bad word has, if there are."""
        if not self._bad_words:
            return ()
        tokens = constraint.tokens
        if self._before is None:  # asked for the first time: what was said is what was accepted, and what came before
            said = self._said[: max(0, len(self._said) - len(tokens))]
            self._before = tuple(said[-self._longest :])
        return (*self._before, *tokens)

    def _ends_of_bad_words(self, past: tuple[int, ...]) -> set[int]:
        return {word[-1] for word in self._bad_words if past[len(past) - len(word) + 1 :] == word[:-1]}


def withheld(sampling_params: Any, width: int, said: Sequence[int]) -> Withheld | None:
    """What vLLM's ``SamplingParams`` withhold; None if nothing. The rest is as in `Withheld`."""
    allowed, bad_words = sampling_params.allowed_token_ids, sampling_params.bad_words_token_ids
    return Withheld(allowed, bad_words or (), width, said) if allowed is not None or bad_words else None


def _row(tokens: Iterable[int], width: int) -> BitmaskRow:
    bits = np.zeros(width * 32, np.uint8)
    bits[list(tokens)] = 1
    return np.packbits(bits, bitorder="little").view(np.int32)


def _nothing_left(parameters: str, constraint: Constraint) -> GrammarError:
    after = f"after {len(constraint.tokens)} generated tokens"
    return GrammarError(
        kind=ErrorKind.DEAD_END,
        fault=Fault.CALLER,
        message=f"{parameters} forbid every token that the grammar allows {after}",
        keyword=parameters.split()[0],
        backend=constraint.grammar.backend.id,
        distribution=constraint.grammar.backend.distribution,
        hint="leave them out, or let them leave what the grammar needs",
    )
