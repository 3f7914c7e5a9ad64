"""What people see of a vocabulary's tokens, and how they find them."""

from collections.abc import Iterable, Iterator

import attrs

from structout.vocabulary import TokenKind, Vocabulary


@attrs.frozen(kw_only=True)
class ShownToken:
    """A token as people read it.

    Attributes:
        id: its id.
        text: what it stands for; bytes that are no UTF-8 by themselves as ``\\xc3``. The spelling of a control token.
        is_end: whether it ends the text.
    """

    id: int
    text: str
    is_end: bool


class TokenTable:
    """The tokens of a vocabulary by what they stand for. Immutable, for any thread."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._pieces = vocabulary.tokens()
        self._names = dict(vocabulary.names)
        self._ends = frozenset(vocabulary.eos_token_ids)
        self._by_bytes: dict[bytes, int] = {}
        for token in (*vocabulary.ids(TokenKind.TEXT), *vocabulary.ids(TokenKind.ADDED)):
            if token not in self._ends:
                self._by_bytes.setdefault(self._pieces[token], token)
        self._longest = max(map(len, self._by_bytes), default=0)

    def shown(self, token: int) -> ShownToken:
        piece = self.piece(token)
        text = piece.decode("utf-8", "backslashreplace") if piece else self._names.get(token, f"token {token}")
        return ShownToken(id=token, text=text, is_end=token in self._ends)

    def piece(self, token: int) -> bytes:
        """The token's bytes; none for control tokens and padding."""
        return self._pieces[token] if token < len(self._pieces) else b""

    def prefixes(self, data: bytes, start: int) -> Iterator[int]:
        """Tokens that ``data`` goes on with at ``start``: the longest first, but those that end inside of a UTF-8
        character last."""
        ends = range(min(len(data), start + self._longest), start, -1)
        for end in sorted(ends, key=lambda end: not is_boundary(data, end)):
            if (token := self._by_bytes.get(data[start:end])) is not None:
                yield token

    def found(self, tokens: Iterable[int], search: str) -> list[int]:
        """Those of the tokens in which the text occurs; all for an empty text."""
        if not search:
            return list(tokens)
        needle = search.encode("utf-8", "surrogatepass")
        return [token for token in tokens if needle in self.piece(token) or search in self._names.get(token, "")]


def is_boundary(data: bytes, at: int) -> bool:
    """Whether a UTF-8 text may be cut there without splitting a character."""
    return at >= len(data) or data[at] & 0xC0 != 0x80
