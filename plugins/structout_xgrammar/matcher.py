"""One sequence's state, over xgrammar's matcher."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

import numpy as np

from structout.backend import BitmaskRow, Status
from structout.forced import LookAhead

if TYPE_CHECKING:
    from xgrammar import GrammarMatcher


# Looking a member up in its enum costs as much as all else that accept() does itself.
_OK: Final = Status.OK
_REJECTED: Final = Status.REJECTED


class XgrammarMatcher:
    """See `structout.backend.Matcher`, `SupportsRollback`, `SupportsFork` and `SupportsForcedText`.

    xgrammar takes a stop token that is also ordinary text for text where the text is not complete. Here it never is.

    Attributes:
        native: xgrammar's matcher.
    """

    __slots__ = ("_accept", "_fill", "_is_text", "_look_ahead", "_stops", "_terminated", "_text_stops", "native")

    def __init__(
        self, native: "GrammarMatcher", is_text: bytes, look_ahead: LookAhead, stop_token_ids: Collection[int]
    ) -> None:
        """``is_text`` has a byte for every id: 1 for tokens that stand for text."""
        self.native = native
        self._fill, self._accept = native.fill_next_token_bitmask, native.accept_token
        self._is_text = is_text
        self._look_ahead = look_ahead
        self._stops = frozenset(stop_token_ids)
        self._text_stops = [(token // 32, _all_but(token % 32)) for token in self._stops if is_text[token]]
        self._terminated = False

    def fill(self, row: BitmaskRow) -> Status:
        if self._terminated:
            return Status.TERMINATED
        self._fill(row)
        if self._text_stops:
            self.clear_stops(row)
        return _OK

    def clear_stops(self, row: BitmaskRow) -> None:
        """Takes the stop tokens that are text out of a row that xgrammar has filled, unless the text may end."""
        if self._text_stops and not self.native.is_completed():
            for word, mask in self._text_stops:
                row[word] &= mask

    def accept(self, token: int) -> Status:
        if self._terminated:
            return Status.TERMINATED
        if token in self._stops:
            self._terminated = self.native.is_completed() and self._accept(token)
            return _OK if self._terminated else _REJECTED
        return _OK if self._is_text[token] and self._accept(token) else _REJECTED

    def rollback(self, tokens: int) -> Status:
        if tokens:
            self.native.rollback(tokens)
            self._terminated = False
        return _OK

    def fork(self) -> "XgrammarMatcher":
        copy = XgrammarMatcher(self.native.fork(), self._is_text, self._look_ahead, self._stops)
        copy._terminated = self._terminated
        return copy

    def forced_text(self, limit: int) -> bytes:
        # Not by `find_jump_forward_string`, which comes back when all that is forced is found: never, for "a" again and
        # again.
        return self._look_ahead.forced_text(self, limit, self._stops)

    @property
    def is_accepting(self) -> bool:
        return self._terminated or self.native.is_completed()

    @property
    def is_terminated(self) -> bool:
        return self._terminated


def _all_but(bit: int) -> np.int32:
    return np.uint32(0xFFFFFFFF ^ (1 << bit)).view(np.int32)
