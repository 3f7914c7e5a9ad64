"""A model that fails where its prompt says so."""

import re
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Final

import torch

from tests.scripted import ScriptedRunner
from tests.serve.matrix.faulty import SECRET, SEEN
from tests.serve.support import GUARD_S

_ORDER: Final = re.compile(rb"!(\w+) (early|late) (all|one) (\d+)!")


def _text(tokens: Sequence[int]) -> bytes:
    """Of the tokens that are bytes; a prompt has no others, nor has the language of `faulty`."""
    return bytes(token for token in tokens if token < 256)


class TroubledModel(ScriptedRunner):
    """A scripted model for prompts with an order ``!deed when whom number!`` in them.

    ``fail early``: the forward pass of the prompt raises. ``fail late``: once a text reads `SEEN`, the forward pass of
    all sequences raises, or if one is to be hit, the first to get there has logits that are not numbers. ``hold``: the
    forward pass behind the first token waits until ``gate`` is set, and sets ``is_holding`` before.

    Attributes:
        held: how often the forward pass met the number of a prompt with ``hold``, by that number.
    """

    def __init__(self) -> None:
        super().__init__(max_rows=4, max_len=256)
        self.gate = threading.Event()
        self.is_holding = threading.Event()
        self.held: Counter[bytes] = Counter()
        self._met: Counter[bytes] = Counter()

    def prefill(self, row: int, tokens: Sequence[int], start: int) -> torch.Tensor:
        match self._order([*self._rows[row], *tokens]):
            case b"fail", b"early", whom, number if self._is_hit(whom, number):
                raise RuntimeError(SECRET)
        return super().prefill(row, tokens, start)

    def decode(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        broken = []
        for row, new in enumerate(tokens):
            known = [*self._rows[row], *new]
            match self._order(known):
                case b"fail", b"late", whom, number if _text(known).endswith(SEEN.encode()):
                    if whom == b"all":
                        raise RuntimeError(SECRET)
                    broken += [row] if self._is_hit(whom, number) else []
                case b"hold", _, _, number:
                    self.held[number] += 1
                    self.is_holding.set()
                    assert self.gate.wait(GUARD_S)
        logits = super().decode(tokens)
        logits[broken] = torch.nan
        return logits

    @staticmethod
    def _order(tokens: Sequence[int]) -> tuple[bytes, ...]:
        """Deed, when, whom and number; nothing if there is none, or the prompt is not complete yet."""
        found = _ORDER.search(_text(tokens))
        return found.groups() if found else ()

    def _is_hit(self, whom: bytes, number: bytes) -> bool:
        self._met[number] += 1
        return whom == b"all" or self._met[number] == 1
