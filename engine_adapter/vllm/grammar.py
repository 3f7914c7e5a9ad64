"""One sequence's constraint as vLLM drives it: what its ``StructuredOutputGrammar`` has to do."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from engine_adapter.vllm.stopping import undone
from engine_adapter.vllm.withheld import Withheld, withheld
from structout.backend import BitmaskRow, Status
from structout.constraint import Constraint
from structout.drafts import accepted_prefix
from structout.errors import GrammarError
from structout.grammar import Grammar
from structout.result import Result

# What comes after the end is no error in vLLM: with ``ignore_eos`` it generates on.
_GOING: Final = (Status.OK, Status.FREE, Status.TERMINATED)


class ConstraintGrammar:
    """A constraint behind vLLM's interface, which has no status: what a row was worth is remembered here.

    A row that is not OK is all ones, and so is one of which the request's own parameters leave nothing. Whatever is
    sampled from it is refused, and that ends this sequence alone.

    Args:
        start: starts the grammar anew.
        constraint: what it has started.
        refused: called with the request's id and the cause when a token is refused.
        withheld: what the request's own parameters forbid; None for nothing.
    """

    def __init__(
        self,
        start: Callable[[], Result[Constraint, GrammarError]],
        constraint: Constraint,
        refused: Callable[[str, GrammarError], None],
        withheld: Withheld | None = None,
    ) -> None:
        self._start = start
        self._refused = refused
        self._withheld = withheld
        self._dead_end: tuple[tuple[int, ...], GrammarError] | None = None
        self._kept: tuple[BitmaskRow, Status] | None = None
        self.constraint = constraint

    def fill_bitmask(self, bitmask: Any, batch_index: int) -> None:
        """Fills a row of a torch.Tensor, int32 [rows, ceil(vocabulary / 32)]."""
        row = bitmask.numpy()[batch_index]
        status = self.constraint.fill(row) if self._kept is None else self._copy(self._kept, row)
        if status is Status.OK and self._withheld is None:
            return
        if error := self._why_nothing_follows(status, row):
            self._dead_end = self.constraint.tokens, error
            row.fill(-1)

    def _copy(self, kept: tuple[BitmaskRow, Status], row: BitmaskRow) -> Status:
        row[:] = kept[0]
        return kept[1]

    def _why_nothing_follows(self, status: Status, row: BitmaskRow) -> GrammarError | None:
        if status is Status.DEAD_END:
            return self.constraint.error_for(status)
        if status is not Status.OK or self._withheld is None:
            return None
        return self._withheld.empties(row, self.constraint)

    def keep_row(self, row: BitmaskRow, status: Status) -> None:
        """Takes a row that was filled for this state, and its status: `fill_bitmask` copies it. It is forgotten when
        the state changes, and the row is the caller's again after `drop_row`."""
        self._kept = row, status

    def drop_row(self) -> None:
        """Forgets a kept row."""
        self._kept = None

    def accept_tokens(self, request_id: str, tokens: Sequence[int]) -> bool:
        """Moves on by tokens until one is refused; False if one was."""
        self._kept = None
        for token in tokens:
            if self._dead_end is not None and self._dead_end[0] == self.constraint.tokens:
                self._refused(request_id, self._dead_end[1])  # nothing could follow, whatever it is
                return False
            status = self.constraint.accept(token)
            if status not in _GOING:
                self._refused(request_id, self.constraint.error_for(status, token=token))
                return False
        return True

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """The longest prefix of draft tokens that may follow; the state is as before."""
        valid = tokens[: accepted_prefix(self.constraint, tokens)]
        if self._withheld is None:
            return valid
        return valid[: self._withheld.first_forbidden(valid, self.constraint)]

    def rollback(self, num_tokens: int) -> None:
        """Takes the last tokens back. If that cannot be done, the sequence fails at its next token."""
        self.drop_row()
        if (status := self.constraint.rollback(num_tokens)) is not Status.OK:
            self.constraint.fail("rollback", f"{num_tokens} tokens cannot be taken back: {status.name}")

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted."""
        return self.constraint.is_terminated

    def reset(self) -> None:
        """Starts anew; raises ValueError if the grammar cannot be."""
        self.drop_row()
        self.constraint = self._start().unwrap()
        self._dead_end = None


def started(
    grammar: Grammar,
    sampling_params: Any,
    *,
    max_drafts: int,
    refused: Callable[[str, GrammarError], None],
    said: Sequence[int] = (),
) -> Result[ConstraintGrammar, GrammarError]:
    """A compiled grammar, started for one request.

    Args:
        grammar: what was compiled.
        sampling_params: vLLM's, for its stop tokens, its stop strings, and what it withholds.
        max_drafts: how many draft tokens a step may verify.
        refused: see `ConstraintGrammar`.
        said: all tokens that the request has generated, also from now on.
    """
    stops = sorted(sampling_params.all_stop_token_ids) or None

    def start() -> Result[Constraint, GrammarError]:
        return grammar.start(stop_token_ids=stops, max_rollback=max_drafts + undone(sampling_params))

    limits = withheld(sampling_params, grammar.vocabulary.bitmask_width, said)
    return start().map(lambda constraint: ConstraintGrammar(start, constraint, refused, limits))
