"""The tokens that a text certainly has, whatever it goes on with: what is appended where a grammar forces a text.

A text has one canonical tokenization, the one that its tokenizer makes, and models have hardly seen another. Where only
the beginning of a text is known, its last tokens are not: ``":`` may go on as ``":"``, which is one token. So a token
counts only where three things hold, for the known text ``s``:

1. It is not in the last of the pieces that the tokenizer cuts ``s`` into before it merges anything (words, numbers,
   signs), nor in white space at the end, nor in what may become an added token. What follows joins the last piece.
2. The expressions that cut look ahead, and some go back behind what they had taken. So the end of ``s`` is encoded
   with various characters behind it: the tokens that come out each time count.
3. The tokens that were there before are still the first ones.

The third makes a token depend on its neighbours before it only. That is enough: a sequence of BPE tokens is canonical
if each two neighbours are (their merges cannot cross a border that no pair of them merges across).
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from structout.vocabularies.huggingface import FastTokenizer, backend_of
from structout.vocabulary import Vocabulary

if TYPE_CHECKING:
    import tokenizers

_BEFORE: Final = 6
"""How many of the tokens before a forced text are encoded again with it."""

_PROBED: Final = 16
"""How many of the last tokens are encoded again with each of `_PROBES`."""

_PROBES: Final = ("", *'aels A0é中" :,}]_/\n', "re", "ll", "'s", " a", ' "', "  ", " \n", "\n\n")
"""What a text may go on with: of each class that the expressions of common tokenizers tell apart, and what
completes the English endings that they know (``'re``)."""

_SAMPLES: Final = ('{"name": "a b", "id": -12.5}', "[\n  true,\n  null\n]", "Ab 3é 中")
"""Texts that a tokenizer has to give back as they are."""

_REMEMBERED: Final = 4096


class CanonicalTokens:
    """A tokenizer that knows which tokens of a text are certain. May be called from any thread.

    Attributes:
        bytes_of: the bytes of each token; none for special ones.
        is_usable: whether it cuts texts into pieces, and these into tokens of just their bytes. One that changes texts,
            or adds spaces, or has no pieces, as SentencePiece has none, is certain of no token.
    """

    def __init__(self, tokenizer: "tokenizers.Tokenizer | FastTokenizer", vocabulary: Vocabulary) -> None:
        """
        Args:
            tokenizer: of `transformers` or of `tokenizers`.
            vocabulary: the same one's, as `from_huggingface` reads it.

        Raises:
            VocabularyError: it is not a fast tokenizer.
        """
        self._tokenizer = backend_of(tokenizer)
        self.bytes_of = vocabulary.token
        added = [token.content for token in self._tokenizer.get_added_tokens_decoder().values()]
        self._beginnings = frozenset(content[:length] for content in added for length in range(1, len(content)))
        self._longest = max(map(len, self._beginnings), default=0)
        self._certain = lru_cache(_REMEMBERED)(self._find)
        self.is_usable = all(self._is_exact(text) for text in _SAMPLES)

    def encode(self, text: str) -> list[int]:
        """The canonical tokens of a whole text."""
        return self._encoded(text).ids

    def after(self, before: Sequence[int], text: bytes) -> tuple[int, ...]:
        """The tokens that ``text`` certainly has, or its beginning.

        Args:
            before: all tokens of the text in front of it, which begins where the tokenizer begins. The last few matter.
            text: what follows, in bytes.
        """
        return self._certain(tuple(before[-_BEFORE:]), text) if self.is_usable else ()

    def _find(self, before: tuple[int, ...], text: bytes) -> tuple[int, ...]:
        known = _whole_characters(b"".join(map(self.bytes_of, before)) + text)
        settled = self._settled(known)
        if tuple(settled[: len(before)]) != before:
            return ()
        return tuple(self._probed(settled, known)[len(before) :])

    def _probed(self, settled: list[int], known: str) -> list[int]:
        """Those of the ``settled`` tokens of a text that are there whatever it is tried to go on with. Only the last
        are encoded again: no expression goes back far."""
        first = max(0, len(settled) - _PROBED)
        rest = known.encode()[len(b"".join(map(self.bytes_of, settled[:first]))) :]
        text, certain = rest.decode(errors="replace"), settled[first:]
        for probe in _PROBES if certain else ():
            certain = _shared(certain, self.encode(text + probe))
        return settled[:first] + certain

    def _settled(self, text: str) -> list[int]:
        """The first tokens of a text, up to where what follows could join them."""
        encoding = self._encoded(text)
        size = len(text.encode())
        settled = min(size, len(text.rstrip().encode()), size - self._begun(text))
        tokens: list[int] = []
        for token, piece in zip(encoding.ids, encoding.word_ids, strict=True):
            settled -= len(self.bytes_of(token))
            if settled < 0 or piece == encoding.word_ids[-1]:
                break
            tokens.append(token)
        is_text = all(map(self.bytes_of, encoding.ids))  # else it spells a special token, which no text may have
        return tokens if is_text and self._spells(tokens, text) else []

    def _begun(self, text: str) -> int:
        """How many bytes at the end may be the beginning of an added token."""
        lengths = range(min(self._longest, len(text)), 0, -1)
        return next((len(text[-length:].encode()) for length in lengths if text[-length:] in self._beginnings), 0)

    def _encoded(self, text: str) -> "tokenizers.Encoding":
        return self._tokenizer.encode(text, add_special_tokens=False)

    def _spells(self, tokens: Sequence[int], text: str) -> bool:
        return text.encode().startswith(b"".join(map(self.bytes_of, tokens)))

    def _is_exact(self, text: str) -> bool:
        """Whether a text's tokens have its bytes, and it is cut into pieces."""
        encoding = self._encoded(text)
        data = b"".join(map(self.bytes_of, encoding.ids))
        return data == text.encode() and len(set(encoding.word_ids)) > 1


def _shared(tokens: list[int], others: list[int]) -> list[int]:
    """What both begin with."""
    return [token for token, _ in takewhile(lambda pair: pair[0] == pair[1], zip(tokens, others, strict=False))]


def _whole_characters(data: bytes) -> str:
    """The text, without a character at its end that is not complete, or what follows bytes that are no UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        return data[: error.start].decode()
