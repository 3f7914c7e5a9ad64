"""llguidance's view of a vocabulary."""

from typing import Final, Never

import attrs
import llguidance

from structout.vocabulary import TokenKind, Vocabulary

_NO_EOS: Final = 0xFFFF_FFFF
"""llguidance's own "invalid token". Stop tokens belong to a sequence, so a grammar knows none: masks hold text only,
and are empty where llguidance itself would answer a failure with "end of sequence"."""

_CONTROL_MARKER: Final = b"\xff"
"""First byte of a token that only its name can reach: no UTF-8 text has it."""


@attrs.frozen
class _Tokens:
    """What `llguidance.TokenizerWrapper` asks of a tokenizer."""

    tokens: list[bytes]
    eos_token_id: int = _NO_EOS
    bos_token_id: int | None = None
    special_token_ids: tuple[int, ...] = ()

    def __call__(self, text: str | bytes) -> Never:
        raise RuntimeError("every grammar is compiled with no_forcing, so nothing is ever tokenized")


def native_tokenizer(vocabulary: Vocabulary) -> llguidance.LLTokenizer:
    """A tokenizer of ``padded_size`` tokens. Control tokens have their names; what is absent has no bytes."""
    tokens = vocabulary.tokens()
    for token, name in vocabulary.names:
        if vocabulary.kind(token) is TokenKind.CONTROL:
            tokens[token] = _CONTROL_MARKER + name.encode()
    tokens += [b""] * (vocabulary.padded_size - vocabulary.size)
    return llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Tokens(tokens)))
