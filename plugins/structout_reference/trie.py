"""The vocabulary's text tokens by their bytes, so that tokens with a common beginning are looked at once."""

from collections.abc import Iterable, Iterator

from structout.vocabulary import TokenKind, Vocabulary
from structout_reference.recognizer import Chart, Recognizer


class Trie:
    """One node: the tokens that end here, and the nodes one byte on."""

    __slots__ = ("children", "tokens")

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.children: dict[int, Trie] = {}

    def add(self, token: int, data: bytes) -> None:
        node = self
        for byte in data:
            node = node.children.setdefault(byte, Trie())
        node.tokens.append(token)


def trie_of(vocabulary: Vocabulary) -> Trie:
    """The root of the tokens that stand for text."""
    root = Trie()
    for token in vocabulary.ids(TokenKind.TEXT, TokenKind.ADDED):
        root.add(token, vocabulary.token(token))
    return root


def alphabet(vocabulary: Vocabulary) -> frozenset[int]:
    """The bytes that texts of this vocabulary can have."""
    return frozenset(vocabulary.data)


def tokens_after(recognizer: Recognizer, chart: Chart, trie: Trie) -> Iterator[int]:
    """The tokens of ``trie`` that may follow."""
    pending = [(chart, trie)]
    while pending:
        chart, node = pending.pop()
        for byte, child in node.children.items():
            after = recognizer.step(chart, byte)
            if after is not None:
                yield from child.tokens
                pending.append((after, child))


def advanced(recognizer: Recognizer, chart: Chart, data: Iterable[int]) -> Chart | None:
    """The chart after these bytes; None if they may not follow."""
    state: Chart | None = chart
    for byte in data:
        state = recognizer.step(state, byte) if state is not None else None
    return state
