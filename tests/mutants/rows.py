"""Faults of what a fill writes."""

from typing import ClassVar

from structout import Status, TokenKind
from structout.backend import BitmaskRow
from tests.mutants.wrapping import PassMatcher, ids_of, is_text, put


class OmitsAToken(PassMatcher):
    """After three tokens, leaves one out that may follow, where there are others."""

    def fill(self, row: BitmaskRow) -> Status:
        status = super().fill(row)
        if len(self.tokens) == 3 and len(self.allowed()) > 1:
            put(row, self.allowed()[0], allowed=False)
        return status


class AllowsAToken(PassMatcher):
    """After two tokens, allows one that may not follow."""

    def fill(self, row: BitmaskRow) -> Status:
        status = super().fill(row)
        if len(self.tokens) == 2:
            known, good = self.vocabulary, {*ids_of(row), *self.stops}
            wrong = next(token for token in range(known.size) if is_text(known, token) and token not in good)
            put(row, wrong, allowed=True)
        return status


class SetsPadding(PassMatcher):
    """Sets the row's last bit, which is no token's."""

    def fill(self, row: BitmaskRow) -> Status:
        status = super().fill(row)
        put(row, len(row) * 32 - 1, allowed=True)
        return status


class SetsAHole(PassMatcher):
    """Allows an id between the tokens that means nothing."""

    def fill(self, row: BitmaskRow) -> Status:
        status = super().fill(row)
        for token in self.vocabulary.ids(TokenKind.ABSENT)[:1]:
            put(row, token, allowed=True)
        return status


class AllowsControl(PassMatcher):
    """Allows a control token that ends nothing, and accepts it as if it were an empty text."""

    def fill(self, row: BitmaskRow) -> Status:
        status = super().fill(row)
        for token in self._others():
            put(row, token, allowed=True)
        return status

    def accept(self, token: int) -> Status:
        return Status.OK if token in self._others() and not self.ended else super().accept(token)

    def _others(self) -> set[int]:
        return set(self.vocabulary.ids(TokenKind.CONTROL)) - set(self.stops)


class LeavesTheLastWord(PassMatcher):
    """Leaves the last word of the row as it was."""

    def fill(self, row: BitmaskRow) -> Status:
        last = row[-1]
        status = super().fill(row)
        row[-1] = last
        return status


class OrsIntoTheRow(PassMatcher):
    """Sets bits, and clears none that the row had before."""

    def fill(self, row: BitmaskRow) -> Status:
        before = row.copy()
        status = super().fill(row)
        row |= before
        return status


class FillMovesOn(PassMatcher):
    """Accepts a token by itself where it is the only one that can follow."""

    def fill(self, row: BitmaskRow) -> Status:
        status = super().fill(row)
        if not self.ended and len(only := ids_of(row)) == 1:
            self.accept(only[0])
        return status


class FillResets(PassMatcher):
    """A fill after the end starts the sequence anew."""

    def fill(self, row: BitmaskRow) -> Status:
        if self.ended:
            self.rollback(len(self.tokens) + 1)
            return Status.TERMINATED
        return super().fill(row)


class DependsOnACounter(PassMatcher):
    """Every ninth row of the process lacks a token."""

    fills: ClassVar[int] = 0

    def fill(self, row: BitmaskRow) -> Status:
        status = super().fill(row)
        DependsOnACounter.fills += 1
        if DependsOnACounter.fills % 9 == 0 and not self.ended:
            put(row, (self.allowed() or self.stops)[0], allowed=False)
        return status


class DependsOnItsAddress(PassMatcher):
    """Some matchers, by where they lie in memory, allow no token of more than two bytes."""

    def fill(self, row: BitmaskRow) -> Status:
        status = super().fill(row)
        for token in self.allowed() if id(self) // 64 % 3 == 0 else ():
            put(row, token, allowed=len(self.vocabulary.token(token)) <= 2)
        return status


class LooksAtTheFirstByte(PassMatcher):
    """Allows every token whose first byte may follow, whatever comes after it."""

    def fill(self, row: BitmaskRow) -> Status:
        status = super().fill(row)
        starts = {self.vocabulary.token(token)[0] for token in self.allowed()}
        for token, piece in enumerate(self.vocabulary.tokens()):
            if piece and piece[0] in starts and token not in self.stops and not self.ended:
                put(row, token, allowed=True)
        return status


class ReturnsAnInteger(PassMatcher):
    """Returns 0 from a fill where it should return a status."""

    def fill(self, row: BitmaskRow) -> Status:
        return int(super().fill(row))  # type: ignore[return-value]
