"""Text out of tokens, one token at a time, up to a stop string."""

import codecs
from collections.abc import Callable, Sequence

from engine_adapter.embedded.stops import StopScanner


def _everywhere(_cut: int) -> bool:
    return True


class Detokenizer:
    """Turns one sequence's tokens into text as they come.

    A token may end inside a UTF-8 character: such bytes are held back until the character is complete. So is what may
    be the beginning of a stop string. The pieces that `push` and `finish` return, put together, are what decoding all
    the bytes at once gives, with U+FFFD for what is not UTF-8: those before the stop string, or up to its end.

    Attributes:
        stop_string: the stop string that ended the text; None as long as none has. No token may be pushed after it.
    """

    def __init__(
        self, token_bytes: Callable[[int], bytes], stops: Sequence[str] = (), *, include_stop: bool = False
    ) -> None:
        """
        Args:
            token_bytes: the vocabulary, as a function from a token id to its bytes; b"" for a token that is no text.
            stops: what ends the text where it may end.
            include_stop: whether the stop string belongs to the text.
        """
        self.stop_string: str | None = None
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._scanner = StopScanner(stops)
        self._include_stop = include_stop
        self._held = b""
        self._released = 0  # bytes

    def push(self, token: int, may_end_at: Callable[[int], bool] = _everywhere) -> str:
        """Takes the next token; returns the text that it completes or decides, which may be empty.

        Of the stop strings at whose place the text may end, the one that ends first does end it; of those that end
        together, the longest.

        Args:
            token: its id.
            may_end_at: whether the text would be complete if it were the first so many bytes only.
        """
        data = self._token_bytes(token)
        ended = self._scanner.push(data)
        self._held = self._held + data if self._held else data
        for found in ended:
            cut = found.end if self._include_stop else found.start
            if may_end_at(cut):
                self.stop_string = found.stop
                text = self._release(cut - self._released)
                self._held = b""
                return text
        return self._release(len(self._held) - self._scanner.undecided)

    def finish(self) -> str:
        """Ends the sequence; returns what was held back, and U+FFFD if the text ended inside a character."""
        return self._release(len(self._held)) + self._decoder.decode(b"", final=True)

    def _release(self, size: int) -> str:
        released, self._held = self._held[:size], self._held[size:]
        self._released += size
        return self._decoder.decode(released)
