"""One sequence's constraint as vLLM drives it: what its ``StructuredOutputGrammar`` has to do."""

from collections.abc import Callable, Sequence
from typing import Any, Final

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

    A row that is not OK is all ones. Whatever is sampled from it is refused, and that ends this sequence alone.

    Args:
        start: starts the grammar anew.
        constraint: what it has started.
        refused: called with the request's id and the cause when a token is refused.
    """

    def __init__(
        self,
        start: Callable[[], Result[Constraint, GrammarError]],
        constraint: Constraint,
        refused: Callable[[str, GrammarError], None],
    ) -> None:
        self._start = start
        self._refused = refused
        self._dead_end: tuple[int, ...] | None = None
        self._kept: tuple[BitmaskRow, Status] | None = None
        self.constraint = constraint

    def fill_bitmask(self, bitmask: Any, batch_index: int) -> None:
        """Fills a row of a torch.Tensor, int32 [rows, ceil(vocabulary / 32)]."""
        if self._fill(bitmask.numpy()[batch_index]) is Status.DEAD_END:
            self._dead_end = self.constraint.tokens

    def _fill(self, row: BitmaskRow) -> Status:
        if self._kept is None:
            return self.constraint.fill(row)
        kept, status = self._kept
        row[:] = kept
        return status

    def keep_row(self, row: BitmaskRow, status: Status) -> None:
        """Takes a row that was filled for this state, and its status: `fill_bitmask` copies it. It is forgotten when
        the state changes, and the row is the caller's again after `drop_row`."""
        self._kept = row, status

    def drop_row(self) -> None:
        """Forgets a kept row."""
        self._kept = None

    def accept_tokens(self, request_id: str, tokens: Sequence[int]) -> bool:
        """Moves on by tokens until one is refused; False if one was."""
        self.drop_row()
        for token in tokens:
            status = self.constraint.accept(token)
            if status not in _GOING:
                self._refused(request_id, self.constraint.error_for(self._because(status), token=token))
                return False
        return True

    def _because(self, status: Status) -> Status:
        """Why a token was refused: where no token could follow, any would have been."""
        is_dead_end = status is Status.REJECTED and self._dead_end == self.constraint.tokens
        return Status.DEAD_END if is_dead_end else status

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """The longest prefix of draft tokens that may follow; the state is as before."""
        return tokens[: accepted_prefix(self.constraint, tokens)]

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
    grammar: Grammar, sampling_params: Any, *, max_drafts: int, refused: Callable[[str, GrammarError], None]
) -> Result[ConstraintGrammar, GrammarError]:
    """A compiled grammar, started for one request.

    Args:
        grammar: what was compiled.
        sampling_params: vLLM's, for its stop tokens.
        max_drafts: how many draft tokens a step may verify.
        refused: see `ConstraintGrammar`.
    """
    stops = sorted(sampling_params.all_stop_token_ids) or None

    def start() -> Result[Constraint, GrammarError]:
        return grammar.start(stop_token_ids=stops, max_rollback=max_drafts)

    return start().map(lambda constraint: ConstraintGrammar(start, constraint, refused))
