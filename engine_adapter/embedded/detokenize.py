"""Text out of tokens, one token at a time."""

import codecs
from collections.abc import Callable


class Detokenizer:
    """Turns one sequence's tokens into text as they come.

    A token may end inside a UTF-8 character: such bytes are held back until the character is complete. The pieces
    that `push` and `finish` return, put together, are what decoding all the bytes at once gives, with U+FFFD for
    what is not UTF-8.
    """

    def __init__(self, token_bytes: Callable[[int], bytes]) -> None:
        """Takes the vocabulary as a function from a token id to its bytes; b"" for a token that is no text."""
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token: int) -> str:
        """Takes the next token; returns the text that it completes, which may be empty."""
        return self._decoder.decode(self._token_bytes(token))

    def finish(self) -> str:
        """Ends the sequence; returns U+FFFD if it ended inside a character, else nothing."""
        return self._decoder.decode(b"", final=True)
