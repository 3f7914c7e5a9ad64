"""Faults around the end of a text."""

from collections.abc import Sequence

from structout import Status
from structout.backend import BitmaskRow
from tests.mutants.wrapping import FullMatcher, PassGrammar, PassMatcher, put


class AcceptsAfterTheEnd(PassMatcher):
    """After the stop token it accepts stop tokens as often as they come."""

    def accept(self, token: int) -> Status:
        return Status.OK if self.ended and token in self.stops else super().accept(token)


class FillsAfterTheEnd(PassMatcher):
    """After the stop token a fill succeeds, and allows the stop tokens."""

    def fill(self, row: BitmaskRow) -> Status:
        status = super().fill(row)
        if self.ended:
            row[:] = 0
            for stop in self.stops:
                put(row, stop, allowed=True)
        return Status.OK if self.ended else status


class GoesOnAfterTheEnd(PassMatcher):
    """The stop token is accepted, and ends nothing."""

    def accept(self, token: int) -> Status:
        status = super().accept(token)
        self.ended = False
        return status


class AcceptingEarly(PassMatcher):
    """Calls a text complete that lacks its last token; the rows are right."""

    @property
    def is_accepting(self) -> bool:
        return self.inner.is_accepting or self.is_one_short()


class NeverAccepting(PassMatcher):
    """Never calls a text complete."""

    @property
    def is_accepting(self) -> bool:
        return False


class IncompleteAfterTheEnd(PassMatcher):
    """Calls no text complete after the stop token."""

    @property
    def is_accepting(self) -> bool:
        return self.inner.is_accepting and not self.ended


class NeverTerminated(PassMatcher):
    """Never says that it has ended."""

    @property
    def is_terminated(self) -> bool:
        return False


class EndsEarly(PassMatcher):
    """May end where the text lacks its last token."""

    @property
    def may_end(self) -> bool:
        return self.inner.is_accepting or self.is_one_short()


class EndsAnywhere(PassMatcher):
    """A stop token is accepted everywhere, though it is in the row only where it belongs."""

    def accept(self, token: int) -> Status:
        if token in self.stops and not self.ended:
            self.ended = True
            return Status.OK
        return super().accept(token)


class EndsLate(PassMatcher):
    """Does not end where the text could go on as well."""

    @property
    def may_end(self) -> bool:
        return self.inner.is_accepting and not self.allowed()


class StopIsNotInTheRow(PassMatcher):
    """Accepts a stop token where it belongs, but never has it in the row where there is something else."""

    def fill(self, row: BitmaskRow) -> Status:
        status = super().fill(row)
        for stop in self.stops if not self.ended and self.allowed() else ():
            put(row, stop, allowed=False)
        return status


class IgnoresTheRequestsStops(PassGrammar):
    """Ends with the vocabulary's end of sequence, whatever the request says."""

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> PassMatcher:
        return super().start(stop_token_ids=self.vocabulary.eos_token_ids, max_rollback=max_rollback)


class TakesTheFirstStop(PassGrammar):
    """Knows only the first of several stop tokens."""

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> PassMatcher:
        return super().start(stop_token_ids=stop_token_ids[:1], max_rollback=max_rollback)


class AddsTheVocabularysStops(PassGrammar):
    """Also ends with the vocabulary's end of sequence where the request names other stop tokens."""

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> PassMatcher:
        stops = dict.fromkeys((*stop_token_ids, *self.vocabulary.eos_token_ids))
        return super().start(stop_token_ids=tuple(stops), max_rollback=max_rollback)


class StopIsText(PassGrammar):
    """A stop token that has bytes counts as text, and ends nothing."""

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> PassMatcher:
        control = [stop for stop in stop_token_ids if not self.vocabulary.token(stop)]
        return super().start(stop_token_ids=control, max_rollback=max_rollback)


class TakesFourStops(PassGrammar):
    """Knows only the first four of many stop tokens."""

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> PassMatcher:
        return super().start(stop_token_ids=stop_token_ids[:4], max_rollback=max_rollback)


class LongStopIsText(PassGrammar):
    """A stop token of several bytes counts as text, and ends nothing."""

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> PassMatcher:
        short = [stop for stop in stop_token_ids if len(self.vocabulary.token(stop)) < 2]
        return super().start(stop_token_ids=short, max_rollback=max_rollback)


class StopsOfTheLatest(PassMatcher):
    """A sequence ends with the stop tokens of the one that was started last."""

    base = "llguidance"

    def __init__(self, inner: FullMatcher, grammar: PassGrammar, stops: Sequence[int]) -> None:
        super().__init__(inner, grammar, stops)
        vars(grammar)["latest"] = self.stops

    def fill(self, row: BitmaskRow) -> Status:
        self.stops = vars(self.grammar)["latest"]
        return super().fill(row)


class RefusedAfterTheEndCounts(PassMatcher):
    """A rollback counts the tokens that were offered behind the end."""

    offered = 0

    def accept(self, token: int) -> Status:
        status = super().accept(token)
        self.offered += status is Status.TERMINATED
        return status

    def rollback(self, tokens: int) -> Status:
        tokens, self.offered = max(0, tokens - self.offered), 0
        return super().rollback(tokens)
