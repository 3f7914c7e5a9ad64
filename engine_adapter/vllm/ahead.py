"""Rows of a step filled together, natively, before vLLM asks for one after the other."""

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np

from engine_adapter.masks import batches, fill_rows
from engine_adapter.vllm.grammar import ConstraintGrammar
from structout.backend import Bitmask, Status


class FirstRows:
    """What comes first of each request's rows in a step: its only one, or the one before its drafts.

    Args:
        width: int32 words in a row.
    """

    def __init__(self, width: int) -> None:
        self._bitmask: Bitmask = np.empty((0, width), np.int32)

    @contextlib.contextmanager
    def filled(self, grammars: Sequence[ConstraintGrammar]) -> Iterator[None]:
        """While it lasts, grammars of a backend that fills batches have their next row ready, in the state they are in.

        A row that is alone is left to `ConstraintGrammar.fill_bitmask`, which needs no copy of it.
        """
        ready = self._fill(grammars)
        try:
            yield
        finally:
            for grammar in ready:
                grammar.drop_row()

    def _fill(self, grammars: Sequence[ConstraintGrammar]) -> list[ConstraintGrammar]:
        together = [each for each in batches([grammar.constraint for grammar in grammars]) if len(each) > 1]
        chosen = [grammars[index] for indices in together for index in indices]
        if len(chosen) > len(self._bitmask):
            self._bitmask = np.empty((len(chosen), self._bitmask.shape[1]), np.int32)
        statuses = fill_rows([grammar.constraint for grammar in chosen], self._bitmask)
        for grammar, row, status in zip(chosen, self._bitmask, statuses.tolist(), strict=False):
            grammar.keep_row(row, Status(status))
        return chosen
