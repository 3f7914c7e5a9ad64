"""Faults that show with some tokens only: bytes of half a character, several characters at once, and the like."""

import abc
from functools import cache

from structout import Status, TokenKind, Vocabulary
from structout.backend import BitmaskRow
from tests.mutants.wrapping import PassMatcher, put


class RaisesOnNul(PassMatcher):
    """Raises on a token with a NUL, as what takes C strings does."""

    def accept(self, token: int) -> Status:
        if b"\0" in self.vocabulary.token(token):
            raise ValueError("embedded null byte")
        return super().accept(token)


class RaisesOnPartOfACharacter(PassMatcher):
    """Raises on a token that is no text by itself."""

    def accept(self, token: int) -> Status:
        self.vocabulary.token(token).decode()
        return super().accept(token)


class SkipsPartsOfCharacters(PassMatcher):
    """Accepts a token that is no text by itself as if it were empty."""

    def accept(self, token: int) -> Status:
        piece = self.vocabulary.token(token)
        is_skipped = piece != b"" and not self.ended and token not in self.stops and not piece.decode(errors="ignore")
        return Status.OK if is_skipped else super().accept(token)


class _Refuses(PassMatcher, abc.ABC):
    """Refuses some tokens, in the rows too."""

    @abc.abstractmethod
    def is_refused(self, token: int) -> bool:
        """Whether it is one of them."""

    def fill(self, row: BitmaskRow) -> Status:
        status = super().fill(row)
        for token in self.allowed() if not self.ended else ():
            if self.is_refused(token):
                put(row, token, allowed=False)
        return status

    def accept(self, token: int) -> Status:
        is_refused = token not in self.stops and not self.ended and self.is_refused(token)
        return Status.REJECTED if is_refused else super().accept(token)


class RefusesPartsOfCharacters(_Refuses):
    """Refuses a token that is no text by itself."""

    def is_refused(self, token: int) -> bool:
        return "\ufffd" in self.vocabulary.token(token).decode(errors="replace")


class RefusesSpanningTokens(_Refuses):
    """Refuses a token that has more after a closing quote."""

    def is_refused(self, token: int) -> bool:
        return b'"' in self.vocabulary.token(token)[:-1]


class RefusesLongTokens(_Refuses):
    """Refuses a token of more than four bytes."""

    def is_refused(self, token: int) -> bool:
        return len(self.vocabulary.token(token)) > 4


class RefusesAddedTokens(_Refuses):
    """Refuses a token of text that was added to the tokenizer by hand."""

    def is_refused(self, token: int) -> bool:
        return self.vocabulary.kind(token) is TokenKind.ADDED


class RefusesBlanksAfterBlanks(_Refuses):
    """Refuses a token that begins with a space after one that ended with it."""

    def is_refused(self, token: int) -> bool:
        return self.text.endswith(b" ") and self.vocabulary.token(token).startswith(b" ")


class DuplicatesAreLost(_Refuses):
    """Of several tokens with the same bytes it knows the first only."""

    base = "llguidance"

    def is_refused(self, token: int) -> bool:
        return token in _duplicates(self.vocabulary)


@cache
def _duplicates(vocabulary: Vocabulary) -> frozenset[int]:
    """The tokens of text whose bytes are those of one before."""
    first: dict[bytes, int] = {}
    tokens = enumerate(vocabulary.tokens())
    return frozenset(token for token, piece in tokens if piece and first.setdefault(piece, token) != token)


class IdsInSixteenBits(_Refuses):
    """Knows no token of text from the 65536th on."""

    base = "llguidance"

    def is_refused(self, token: int) -> bool:
        return token >= 1 << 16
