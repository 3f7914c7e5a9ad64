"""A way through a grammar's language: what may follow, a token or a text at a time, and back."""

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from engine_adapter.outcome import too_slow
from engine_adapter.serve.http.page.tokens import TokenTable, is_boundary
from structout.backend import Status
from structout.constraint import Constraint
from structout.errors import ErrorKind, GrammarError
from structout.grammar import Grammar
from structout.result import Err, Ok, Result

MAX_TOKENS: Final = 2048
"""Most tokens of a walk: going back takes them all again."""

_NO_STEP: Final = GrammarError(kind=ErrorKind.INVALID_SPEC, message="there is no step to go back")
_OVER: Final = GrammarError(
    kind=ErrorKind.INVALID_SPEC, message="the text has ended, nothing can follow", hint="go back a step"
)
_TOO_LONG: Final = GrammarError(
    kind=ErrorKind.TOO_COMPLEX, message=f"the text has {MAX_TOKENS} tokens, which is the most there can be here"
)


class Walk:
    """Belongs to one thread at a time. Made by `begin`. What goes wrong changes nothing."""

    def __init__(self, constraint: Constraint, table: TokenTable) -> None:
        self._constraint = constraint
        self._table = table
        self._steps: list[int] = []  # how many tokens there were before each

    @classmethod
    def begin(cls, grammar: Grammar, table: TokenTable) -> "Result[Walk, GrammarError]":
        """Before the first token."""
        return grammar.start().map(lambda constraint: cls(constraint, table))

    @property
    def grammar(self) -> Grammar:
        return self._constraint.grammar

    @property
    def tokens(self) -> tuple[int, ...]:
        """All that were taken."""
        return self._constraint.tokens

    @property
    def text(self) -> bytes:
        return b"".join(map(self._table.piece, self.tokens))

    @property
    def can_go_back(self) -> bool:
        return bool(self._steps)

    @property
    def is_complete(self) -> bool:
        """Whether the text may end here."""
        return self._constraint.is_accepting

    @property
    def is_ended(self) -> bool:
        """Whether a stop token was taken."""
        return self._constraint.is_terminated

    def allowed(self) -> Result[npt.NDArray[np.intp], GrammarError]:
        """The ids of the tokens that may follow, ascending; none after the end. Or why that cannot be said."""
        row = np.empty(self.grammar.vocabulary.bitmask_width, np.int32)
        match self._constraint.fill(row):
            case Status.OK:
                return Ok(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")))
            case Status.TERMINATED:
                return Ok(np.empty(0, np.intp))
            case Status.LATE:
                return Err(too_slow(1))
            case status:
                return Err(self._constraint.error_for(status))

    def take(self, token: int) -> Result[None, GrammarError]:
        """Goes a step on, by one token."""
        before = len(self.tokens)
        if before >= MAX_TOKENS:
            return Err(_TOO_LONG)
        match self._constraint.accept(token):
            case Status.OK:
                self._steps.append(before)
                return Ok(None)
            case Status.REJECTED:
                message = f"token {token} cannot follow here"
                return Err(GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, pointer="/token"))
            case Status.TERMINATED:
                return Err(_OVER)
            case status:
                return Err(self._constraint.error_for(status))

    def take_text(self, text: str) -> Result[int, GrammarError]:
        """Goes a step on, by as much of the text as may follow, in whole characters; by nothing, it is no step.

        The tokens are the longest that go. Returns how many characters were taken.
        """
        if self.is_ended:
            return Err(_OVER)
        data, before = text.encode("utf-8", "surrogatepass"), len(self.tokens)
        at, kept, fits = 0, before, 0  # `fits` bytes are whole characters, up to the token `kept`
        while at < len(data) and len(self.tokens) < MAX_TOKENS and (token := self._next(data, at)) is not None:
            at += len(self._table.piece(token))
            if is_boundary(data, at):
                kept, fits = len(self.tokens), at
        if (error := self._constraint.error) is not None:
            return Err(error)
        if kept < len(self.tokens) and isinstance(undone := self._restart(self.tokens[:kept]), Err):
            return undone
        if kept > before:
            self._steps.append(before)
        return Ok(len(data[:fits].decode("utf-8", "surrogatepass")))

    def _next(self, data: bytes, at: int) -> int | None:
        """Takes the first token that may follow and continues the text; None if there is none."""
        tokens = self._table.prefixes(data, at)
        return next((token for token in tokens if self._constraint.accept(token) is Status.OK), None)

    def back(self) -> Result[None, GrammarError]:
        """Undoes the last step, also behind a failure."""
        if not self._steps:
            return Err(_NO_STEP)
        return self._restart(self.tokens[: self._steps[-1]]).map(lambda _: self._forget_step())

    def _forget_step(self) -> None:
        self._steps.pop()

    def _restart(self, tokens: Iterable[int]) -> Result[None, GrammarError]:
        """Begins anew with these tokens, which is the one way back that no backend can have wrong."""
        match self.grammar.start():
            case Err() as failed:
                return failed
            case Ok(constraint):
                pass
        for token in tokens:
            if (status := constraint.accept(token)) is not Status.OK:
                return Err(constraint.error_for(status, token=token))
        self._constraint = constraint
        return Ok(None)
