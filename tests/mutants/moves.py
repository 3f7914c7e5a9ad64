"""Faults of the state: what accepting, refusing, undoing, copying and starting do to it."""

import copy
from collections.abc import Sequence
from typing import Self, cast

from structout import Status
from structout.backend import BitmaskRow
from tests.mutants.wrapping import FullMatcher, PassGrammar, PassMatcher, byte_token


class RefusedTokenLatches(PassMatcher):
    """After a refused token it refuses every token."""

    latched = False

    def accept(self, token: int) -> Status:
        status = Status.REJECTED if self.latched else super().accept(token)
        self.latched |= status is Status.REJECTED
        return status


class RefusedTokenMoves(PassMatcher):
    """A refused token's first byte is consumed all the same, if it may follow."""

    def accept(self, token: int) -> Status:
        status = super().accept(token)
        piece = self.vocabulary.token(token)
        if status is Status.REJECTED and piece:
            super().accept(byte_token(self.vocabulary, piece[0]))
        return status


class RefusedStopMoves(PassMatcher):
    """A stop token that comes too early starts the text anew."""

    def accept(self, token: int) -> Status:
        status = super().accept(token)
        if token in self.stops and status is Status.REJECTED:
            self.rollback(len(self.tokens))
        return status


class RollbackOffByOne(PassMatcher):
    """Undoes a token too few where it has to undo several."""

    def rollback(self, tokens: int) -> Status:
        return super().rollback(tokens - 1 if tokens > 1 else tokens)


class RollbackForgetsTheStop(PassMatcher):
    """Takes the stop token back, and then as many tokens as it should have taken back with it."""

    def rollback(self, tokens: int) -> Status:
        return super().rollback(min(tokens + self.ended, len(self.tokens) + self.ended) if tokens else 0)


class RollbackKeepsTheEnd(PassMatcher):
    """Stays at the end when the stop token is taken back."""

    def rollback(self, tokens: int) -> Status:
        ended, status = self.ended, super().rollback(tokens)
        self.ended = ended
        return status


class RollbackOfNoneResets(PassMatcher):
    """Undoing no token undoes all."""

    def rollback(self, tokens: int) -> Status:
        return super().rollback(tokens or len(self.tokens) + self.ended)


class RollbackOfManyFails(PassMatcher):
    """Can undo three tokens at most, whatever was asked for."""

    def rollback(self, tokens: int) -> Status:
        return super().rollback(tokens) if tokens <= 3 else Status.REJECTED


class StaleAfterRollback(PassMatcher):
    """Whether the text is complete is remembered from the last token, and not asked again after a rollback."""

    known = None

    def accept(self, token: int) -> Status:
        status = super().accept(token)
        self.known = self.inner.is_accepting
        return status

    @property
    def is_accepting(self) -> bool:
        return self.inner.is_accepting if self.known is None else self.known


class ForkSharesState(PassMatcher):
    """A fork looks at the same state."""

    def fork(self) -> Self:
        return copy.copy(self)


class ForkForgets(PassMatcher):
    """A fork begins at the beginning."""

    def fork(self) -> Self:
        twin = super().fork()
        twin.rollback(len(twin.tokens) + twin.ended)
        return twin


class ForkRevives(PassMatcher):
    """A fork of a sequence that has ended has not ended."""

    def fork(self) -> Self:
        twin = super().fork()
        twin.ended = False
        return twin


class StartsShareState(PassGrammar):
    """All sequences of a grammar are in the state of the first."""

    first: FullMatcher | None = None

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> PassMatcher:
        started = super().start(stop_token_ids=stop_token_ids, max_rollback=max_rollback)
        self.first = self.first or started.inner
        started.inner = self.first
        return started


class StartsWhereOthersAre(PassGrammar):
    """Every fourth sequence starts as a copy of the one before, not at the beginning."""

    count = 0
    last: PassMatcher | None = None

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> PassMatcher:
        started = super().start(stop_token_ids=stop_token_ids, max_rollback=max_rollback)
        self.count += 1
        if self.count % 4 == 0 and self.last is not None:
            started.inner = cast(FullMatcher, self.last.inner.fork())
        self.last = started
        return started


class DeadEnd(PassMatcher):
    """After the last of three digits nothing may follow any more."""

    def fill(self, row: BitmaskRow) -> Status:
        status = super().fill(row)
        if self._is_stuck():
            row[:] = 0
        return status

    def accept(self, token: int) -> Status:
        return Status.REJECTED if self._is_stuck() and not self.ended else super().accept(token)

    def _is_stuck(self) -> bool:
        return self.text[-3:].isdigit() and len(self.text) >= 3


class DeadEndAfterEscape(DeadEnd):
    """In a string nothing may follow a backslash."""

    def _is_stuck(self) -> bool:
        return self.text.endswith(b"\\")


class DeadEndAfterComma(DeadEnd):
    """Nothing may follow a comma."""

    def _is_stuck(self) -> bool:
        return self.text.endswith(b",")


class RollbackCountsTheRefused(PassMatcher):
    """A rollback right after a refused token counts that one as well."""

    refused = 0

    def accept(self, token: int) -> Status:
        status = super().accept(token)
        self.refused = int(status is Status.REJECTED)
        return status

    def rollback(self, tokens: int) -> Status:
        tokens, self.refused = max(0, tokens - self.refused), 0
        return super().rollback(tokens)


class RollbackOfMoreThan48Fails(PassMatcher):
    """Can undo 48 tokens at most, whatever was asked for."""

    def rollback(self, tokens: int) -> Status:
        return Status.REJECTED if tokens > 48 else super().rollback(tokens)


class NeedsAWindow(PassGrammar):
    """Cannot start a sequence that never undoes anything."""

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> PassMatcher:
        if max_rollback == 0:
            raise ValueError("a window of no tokens")
        return super().start(stop_token_ids=stop_token_ids, max_rollback=max_rollback)


class ForkOfAForkShares(PassMatcher):
    """A fork of a fork looks at the same state."""

    is_fork = False

    def fork(self) -> Self:
        twin = super().fork()
        if self.is_fork:
            twin.inner = self.inner
        twin.is_fork = True
        return twin


class ForkAfterARollbackForgets(PassMatcher):
    """A fork that is made right after a rollback begins at the beginning."""

    has_undone = False

    def rollback(self, tokens: int) -> Status:
        self.has_undone = tokens > 0
        return super().rollback(tokens)

    def accept(self, token: int) -> Status:
        self.has_undone = False
        return super().accept(token)

    def fork(self) -> Self:
        twin = super().fork()
        if self.has_undone and not twin.ended:
            twin.inner.rollback(len(twin.tokens))
            twin.tokens = []
        return twin


class ForkBehindTheEndIsStuck(PassMatcher):
    """A fork that is made behind the end cannot undo anything."""

    is_stuck = False

    def fork(self) -> Self:
        twin = super().fork()
        twin.is_stuck = self.ended
        return twin

    def rollback(self, tokens: int) -> Status:
        return Status.REJECTED if tokens and self.is_stuck else super().rollback(tokens)


class ForksShareTheirPast(PassMatcher):
    """What a rollback goes back to is kept by position in a table that forks share."""

    base = "llguidance"

    def __init__(self, inner: FullMatcher, grammar: PassGrammar, stops: Sequence[int]) -> None:
        super().__init__(inner, grammar, stops)
        self.past: dict[int, FullMatcher] = {}

    def accept(self, token: int) -> Status:
        before, position = cast(FullMatcher, self.inner.fork()), len(self.tokens)
        status = super().accept(token)
        if len(self.tokens) > position:
            self.past[position] = before
        return status

    def rollback(self, tokens: int) -> Status:
        if tokens and self.ended:
            self.ended = False
            tokens -= 1
        if tokens:
            position = len(self.tokens) - tokens
            self.inner = cast(FullMatcher, self.past[position].fork())
            del self.tokens[position:]
        return Status.OK


class WindowInAByte(PassGrammar):
    """How many tokens may have to be undone is kept in a byte."""

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> PassMatcher:
        started = super().start(stop_token_ids=stop_token_ids, max_rollback=max_rollback)
        started.__class__ = _Windowed
        vars(started)["window"] = max_rollback % 256
        return started


class _Windowed(PassMatcher):
    def rollback(self, tokens: int) -> Status:
        return Status.REJECTED if tokens > vars(self)["window"] else super().rollback(tokens)
