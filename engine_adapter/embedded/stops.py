"""Stop strings in bytes that come token by token: where one ends, and what may still become one.

They are looked for in the UTF-8 bytes that the tokens stand for, so neither tokens nor characters have to be whole.
U+FFFD in a stop string is that character itself, not what bytes that are no UTF-8 are shown as.
"""

from collections.abc import Sequence

import attrs


@attrs.frozen
class Found:
    """A stop string, and where it is in all bytes so far."""

    stop: str
    start: int
    end: int


class StopScanner:
    """Finds stop strings in one sequence's bytes. Each byte is looked at once for each stop string (Knuth, Morris and
    Pratt), however long the text is; bytes with which none begins are passed over at once.

    Attributes:
        undecided: how many of the last bytes are the beginning of a stop string.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        """Takes the stop strings, of at least one character each."""
        patterns = [_Pattern(stop, stop.encode()) for stop in dict.fromkeys(stops)]
        self.undecided = 0
        self._patterns = sorted(patterns, key=lambda pattern: -len(pattern.data))
        self._beginnings = frozenset(pattern.data[0] for pattern in patterns)
        self._size = 0

    def push(self, data: bytes) -> list[Found]:
        """Takes the next bytes. Returns what ends in them: who ends first comes first, then who begins first."""
        found: list[Found] = []
        if not self.undecided and self._beginnings.isdisjoint(data):
            self._size += len(data)
            return found
        for byte in data:
            self._size += 1
            ended = [pattern for pattern in self._patterns if pattern.step(byte)]
            found += [Found(pattern.stop, self._size - len(pattern.data), self._size) for pattern in ended]
        self.undecided = max(pattern.matched for pattern in self._patterns)
        return found


class _Pattern:
    """One stop string, and how many of its bytes are the last ones that came, but for all of them."""

    def __init__(self, stop: str, data: bytes) -> None:
        self.stop = stop
        self.data = data
        self.matched = 0
        self._fallback = [0] * (len(data) + 1)  # the longest proper prefix of the first n bytes that is their end too
        for length in range(2, len(data) + 1):
            self._fallback[length] = self._extended(self._fallback[length - 1], data[length - 1])

    def step(self, byte: int) -> bool:
        """Takes the next byte; returns whether the stop string ends with it."""
        self.matched = self._extended(self.matched, byte)
        if self.matched < len(self.data):
            return False
        self.matched = self._fallback[self.matched]
        return True

    def _extended(self, matched: int, byte: int) -> int:
        while matched and self.data[matched] != byte:
            matched = self._fallback[matched]
        return matched + (self.data[matched] == byte)
