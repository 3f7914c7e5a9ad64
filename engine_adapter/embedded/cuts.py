"""Where a constrained text may be cut, so that what is left is a complete text of its grammar."""

from collections.abc import Sequence

from structout.backend import Status
from structout.constraint import Constraint
from structout.result import Err, Ok
from structout.vocabulary import Vocabulary


class Spelling:
    """A vocabulary's bytes of tokens, and its tokens of single bytes."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.bytes_of = vocabulary.token
        self._token_of = vocabulary.byte_tokens()

    def spell(self, text: bytes) -> list[int] | None:
        """The text in tokens of one byte each; None if one of its bytes has none."""
        tokens = [self._token_of[byte] for byte in text if byte in self._token_of]
        return tokens if len(tokens) == len(text) else None


class Cuts:
    """The places at which one constrained sequence may end. A place is a number of bytes of its text.

    Between two tokens a place is known from when the second came. Inside a token it is tried out, on a copy of
    the constraint that takes the last tokens back and the bytes up to the place instead; each place once at most.
    The matcher of a risky grammar may be slow, or in another process, and the engine's thread waits for neither: it is
    not asked, and a place inside a token does not count.

    Args:
        spelling: of the vocabulary.
        waits: whether the engine's thread waits for such matchers all the same.
    """

    def __init__(self, spelling: Spelling, *, waits: bool = False) -> None:
        self._spelling = spelling
        self._waits = waits
        self._size = 0
        self._known: dict[int, bool] = {}

    def before(self, token: int, *, is_complete: bool) -> None:
        """Is told of each token, and whether the text was complete before the constraint accepted it."""
        self._known[self._size] = is_complete
        self.behind(token)

    def behind(self, token: int) -> None:
        """To be called instead of `before` for a token that was accepted already: the place before it is tried out."""
        self._size += len(self._spelling.bytes_of(token))

    def allow(self, cut: int, constraint: Constraint, tokens: Sequence[int]) -> bool:
        """Whether the first ``cut`` bytes are complete. ``tokens`` are all that were accepted.

        A failure of the plugin is the constraint's from then on, as if it had happened in any other call.
        """
        if cut not in self._known and (self._waits or not constraint.grammar.is_risky):
            self._known[cut] = constraint.is_accepting if cut == self._size else self._try(cut, constraint, tokens)
        return self._known.get(cut, False)

    def _try(self, cut: int, constraint: Constraint, tokens: Sequence[int]) -> bool:
        taken_back, kept = self._locate(cut, tokens)
        spelled = self._spelling.spell(kept)
        if spelled is None:
            return False
        match constraint.fork():
            case Err(error):
                constraint.error = error
                return False
            case Ok(copy):
                complete = copy.rollback(taken_back) is Status.OK and _completes(copy, spelled)
                constraint.error = copy.error
                return complete and copy.error is None

    def _locate(self, cut: int, tokens: Sequence[int]) -> tuple[int, bytes]:
        """How many of the last tokens reach beyond the place, and what the first of these has before it."""
        taken_back, start, data = 0, self._size, b""
        while start > cut:
            taken_back += 1
            data = self._spelling.bytes_of(tokens[-taken_back])
            start -= len(data)
        return taken_back, data[: cut - start]


def _completes(constraint: Constraint, tokens: Sequence[int]) -> bool:
    """Whether the text is complete behind these tokens, if the grammar constrains them all and none ends it."""
    taken = constraint.is_active and all(constraint.accept(token) is Status.OK for token in tokens)
    return taken and not constraint.is_terminated and constraint.is_accepting
