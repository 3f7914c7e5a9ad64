"""One sequence's state, over xgrammar's matcher."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from structout.backend import BitmaskRow, Status

if TYPE_CHECKING:
    from xgrammar import GrammarMatcher


class XgrammarMatcher:
    """See `structout.backend.Matcher`, `SupportsRollback` and `SupportsFork`.

    xgrammar takes a stop token that is also ordinary text for text where the text is not complete. Here it never is.

    Attributes:
        native: xgrammar's matcher.
    """

    __slots__ = ("_is_text", "_stops", "_terminated", "_text_stops", "native")

    def __init__(self, native: "GrammarMatcher", is_text: bytes, stop_token_ids: Sequence[int]) -> None:
        """``is_text`` has a byte for every id: 1 for tokens that stand for text."""
        self.native = native
        self._is_text = is_text
        self._stops = frozenset(stop_token_ids)
        self._text_stops = [token for token in self._stops if is_text[token]]
        self._terminated = False

    def fill(self, row: BitmaskRow) -> Status:
        if self._terminated:
            return Status.TERMINATED
        self.native.fill_next_token_bitmask(row)
        if self._text_stops:
            self.clear_stops(row)
        return Status.OK

    def clear_stops(self, row: BitmaskRow) -> None:
        """Takes the stop tokens that are text out of a row that xgrammar has filled, unless the text may end."""
        if not self.native.is_completed():
            for token in self._text_stops:
                row[token // 32] &= ~(1 << token % 32)

    def accept(self, token: int) -> Status:
        if self._terminated:
            return Status.TERMINATED
        if token in self._stops:
            self._terminated = self.native.is_completed() and self.native.accept_token(token)
            return Status.OK if self._terminated else Status.REJECTED
        accepted = self._is_text[token] and self.native.accept_token(token)
        return Status.OK if accepted else Status.REJECTED

    def rollback(self, tokens: int) -> Status:
        if tokens:
            self.native.rollback(tokens)
            self._terminated = False
        return Status.OK

    def fork(self) -> "XgrammarMatcher":
        copy = XgrammarMatcher(self.native.fork(), self._is_text, tuple(self._stops))
        copy._terminated = self._terminated
        return copy

    @property
    def is_accepting(self) -> bool:
        return self._terminated or bool(self.native.is_completed())

    @property
    def is_terminated(self) -> bool:
        return self._terminated
