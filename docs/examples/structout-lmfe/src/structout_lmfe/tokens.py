"""A vocabulary as lm-format-enforcer needs it: characters, not bytes."""

from collections.abc import Iterator
from typing import Any, Final

from lmformatenforcer.tokenenforcer import TokenEnforcerTokenizerData
from structout import Vocabulary

CONTROL: Final = frozenset(map(chr, range(32)))
_BLANKS: Final = frozenset("\t\n\r")
# In ECMA's regular expressions, which a schema's patterns are, the dot leaves them out.
_LINE_ENDS: Final = frozenset("\u2028\u2029")


class Tokens:
    """The tokens that can be used, as a tree of their characters.

    A token that ends inside of a character is left out: the library would take its replacement for the text. In JSON,
    so are tokens with an escape and more, whose length it takes for the text's, and those with control characters.

    Attributes:
        texts: by id.
        tree: lm-format-enforcer's tree.
        alphabet: all the characters, which is what "any character" means to the library.
        raw: those with a blank that no JSON string may contain.
    """

    def __init__(self, vocabulary: Vocabulary, *, json: bool) -> None:
        self.texts = dict(_texts(vocabulary))
        if json:
            self.texts = {token: text for token, text in self.texts.items() if _is_plain(text)}
        regular = [(token, text, False) for token, text in self.texts.items()]
        data = TokenEnforcerTokenizerData(regular, _no_decoder, [], False, vocabulary.size)
        self.tree: Any = data.tokenizer_tree
        characters = set().union(*self.texts.values())
        self.alphabet = "".join(sorted(characters - (CONTROL | _LINE_ENDS if json else set())))
        self.raw = {token for token, text in self.texts.items() if _BLANKS & set(text.partition('"')[0])}


def _texts(vocabulary: Vocabulary) -> Iterator[tuple[int, str]]:
    for token, piece in enumerate(vocabulary.tokens()):
        try:
            if piece:
                yield token, piece.decode()
        except UnicodeDecodeError:
            continue


def _is_plain(text: str) -> bool:
    return text == "\\" or ("\\" not in text and not CONTROL - _BLANKS & set(text))


def _no_decoder(_tokens: list[int]) -> str:
    raise AssertionError("only the library's own loop decodes tokens")
