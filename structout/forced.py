"""What a grammar forces, found by looking ahead: for plugins whose library cannot tell, or would go on without end."""

from collections.abc import Iterator
from itertools import islice
from typing import Final, Protocol

import numpy as np

from structout.backend import BitmaskRow, Matcher, Status, SupportsFork
from structout.errors import reraise_users_interrupt
from structout.vocabulary import Vocabulary

_MOST_WORDS: Final = 64
"""Words of a row with bits set, above which it is taken for one with a choice without being looked at: where a text is
forced, all its beginnings may follow, and these are few."""


class ForkingMatcher(Matcher, SupportsFork, Protocol):
    """A matcher that can be looked ahead with."""


class LookAhead:
    """Finds forced text by walking along it on a fork, byte by byte: what may follow is in the row. So it costs a fork,
    and a fill and an accept for each byte; where there is a choice, one fill.

    Holds for what the vocabulary can write: a text that needs bytes which no token has is nobody's choice.

    Args:
        vocabulary: what the matchers are for.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        data = np.frombuffer(vocabulary.data, np.uint8)
        starts, ends = vocabulary.offsets[:-1], vocabulary.offsets[1:]
        self._firsts = np.full(vocabulary.bitmask_width * 32, -1, np.int16)
        self._firsts[: vocabulary.size][ends > starts] = data[starts[ends > starts]]
        self._token_of = vocabulary.byte_tokens()
        self._width = vocabulary.bitmask_width
        # Else a token could go on with a byte that none begins with, and no row behind its first bytes would show it.
        self._is_usable = set(np.unique(data).tolist()) <= set(self._firsts[self._firsts >= 0].tolist())

    def forced_text(self, matcher: ForkingMatcher, limit: int, stop_token_ids: frozenset[int]) -> bytes:
        """See `structout.backend.SupportsForcedText`. What the matcher raises ends the walk: it may lie where the
        sequence never gets, and shows if it does."""
        forced = bytearray()
        try:
            for byte in islice(self._walk(matcher, stop_token_ids), limit):
                forced.append(byte)
        except BaseException as exc:
            reraise_users_interrupt(exc)
        return bytes(forced)

    def _walk(self, matcher: ForkingMatcher, stop_token_ids: frozenset[int]) -> Iterator[int]:
        ahead: Matcher = matcher
        row = np.zeros(self._width, np.int32)
        while self._is_usable and ahead.fill(row) is Status.OK:
            byte = self._only_byte(row, stop_token_ids)
            token = self._token_of.get(byte)
            if token is None:
                return
            ahead = matcher.fork() if ahead is matcher else ahead
            if ahead.accept(token) is not Status.OK:
                return
            yield byte

    def _only_byte(self, row: BitmaskRow, stop_token_ids: frozenset[int]) -> int:
        """The byte that all tokens of a row begin with; -1 if they do not, or the text may end."""
        words = np.flatnonzero(row)
        if not 0 < len(words) <= _MOST_WORDS:
            return -1
        bits = np.flatnonzero(np.unpackbits(row[words].view(np.uint8), bitorder="little"))
        tokens = words[bits >> 5] * 32 + (bits & 31)
        firsts = self._firsts[tokens]
        is_choice = (firsts != firsts[0]).any() or not stop_token_ids.isdisjoint(tokens.tolist())
        return -1 if is_choice else int(firsts[0])
