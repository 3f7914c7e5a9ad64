"""Ways to cut one text into the tokens of a vocabulary."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

from structout.vocabulary import TokenKind, Vocabulary


@cache
def _ids_by_bytes(vocabulary: Vocabulary) -> tuple[Mapping[bytes, int], int]:
    """The first id of every sequence of bytes that a token stands for, and the longest such sequence's length."""
    ids: dict[bytes, int] = {}
    for token in vocabulary.ids(TokenKind.TEXT, TokenKind.ADDED):
        ids.setdefault(vocabulary.token(token), token)
    return ids, max(map(len, ids))


def as_bytes(vocabulary: Vocabulary, data: bytes) -> list[int] | None:
    """A token for each byte; None if the vocabulary has no token for one of them."""
    ids, _ = _ids_by_bytes(vocabulary)
    tokens = [ids.get(bytes([byte]), -1) for byte in data]
    return None if -1 in tokens else tokens


def greedy(vocabulary: Vocabulary, data: bytes) -> list[int] | None:
    """The longest token at every place, from the left; None if that leads nowhere.

    It stands for the canonical tokenization of vocabularies without a tokenizer.
    """
    return _cut(vocabulary, data, max)


def random_split(vocabulary: Vocabulary, data: bytes, draw: random.Random) -> list[int] | None:
    """At every place one of the tokens that the text goes on with; None if that leads nowhere."""
    return _cut(vocabulary, data, draw.choice)


def _cut(vocabulary: Vocabulary, data: bytes, choose: Callable[[Sequence[int]], int]) -> list[int] | None:
    ids, longest = _ids_by_bytes(vocabulary)
    tokens: list[int] = []
    start = 0
    while start < len(data):
        ends = [end for end in range(start + 1, min(len(data), start + longest) + 1) if data[start:end] in ids]
        if not ends:
            return None
        end = choose(ends)
        tokens.append(ids[data[start:end]])
        start = end
    return tokens


def tokenizations(
    vocabulary: Vocabulary, data: bytes, draw: random.Random, *, splits: int = 3
) -> Iterator[tuple[str, list[int]]]:
    """Different token sequences of one text, each with its name: ``bytes``, ``greedy``, ``split 0``, ..."""
    seen: set[tuple[int, ...]] = set()
    named: list[tuple[str, list[int] | None]] = [
        ("bytes", as_bytes(vocabulary, data)),
        ("greedy", greedy(vocabulary, data)),
        *((f"split {number}", random_split(vocabulary, data, draw)) for number in range(splits)),
    ]
    for name, tokens in named:
        if tokens is not None and tuple(tokens) not in seen:
            seen.add(tuple(tokens))
            yield name, tokens
