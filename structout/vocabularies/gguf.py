"""Vocabularies of GGUF files, as llama.cpp reads them."""

import enum
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from structout.vocabularies.gguf_metadata import Value, read_metadata
from structout.vocabularies.spelling import byte_level, fallback_byte, spaced
from structout.vocabulary import Vocabulary, VocabularyError


class _Type(enum.IntEnum):
    """``tokenizer.ggml.token_type``."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


def _byte(token: str) -> bytes:
    if (byte := fallback_byte(token)) is None:
        raise VocabularyError(f"the byte token {token!r} is not written like <0x0A>. Convert the model again.")
    return byte


# By tokenizer.ggml.model, how the text of each type of token that has bytes is read.
_SPELLINGS: Final[Mapping[str, Mapping[int, Callable[[str], bytes]]]] = {
    "gpt2": {_Type.NORMAL: byte_level, _Type.USER_DEFINED: str.encode},
    "llama": {_Type.NORMAL: spaced, _Type.USER_DEFINED: spaced, _Type.BYTE: _byte},
}
_WITHOUT_BYTES: Final = (_Type.UNKNOWN, _Type.CONTROL, _Type.UNUSED)


def from_gguf(
    path: str | os.PathLike[str],
    *,
    eos_token_ids: Sequence[int] | None = None,
    padded_size: int | None = None,
) -> Vocabulary:
    """The vocabulary in a GGUF file whose tokenizer is of the model ``gpt2`` (byte-level) or ``llama`` (SentencePiece).

    ``▁`` is a space in every token of ``llama``, see `structout.vocabularies.from_huggingface`. Against the tokenizer
    that a file was converted from, two things may differ: conversion pads the tokens up to the model's logits, so that
    padding counts as ABSENT tokens, and it makes added tokens that only look special (``<|...|>``) CONTROL.

    Args:
        path: of the file; of a model in several files, the first.
        eos_token_ids: ids that end a sequence. When not given, those that the file names as its end of sequence, of
            turn and of message; these are CONTROL whatever their type is.
        padded_size: columns of the logits; the number of tokens when not given, as llama.cpp wants it.

    Raises:
        VocabularyError: the file cannot be read, it has no tokenizer or one of another model, it names no end of
            sequence, an id is out of range, or ``padded_size`` is too small.
    """
    metadata = read_metadata(path)
    texts, types = _tokens(metadata)
    spelling = _spelling(metadata, types)
    named = _ends(metadata, len(texts))
    ends = named if eos_token_ids is None else eos_token_ids
    if not ends:
        raise VocabularyError(f"{os.fspath(path)} names no end of sequence. Pass eos_token_ids.")
    control = [token for token, kind in enumerate(types) if kind in (_Type.UNKNOWN, _Type.CONTROL)]
    return Vocabulary.from_tokens(
        [spelling.get(kind, _nothing)(text) for text, kind in zip(texts, types, strict=True)],
        eos_token_ids=ends,
        control=[(token, texts[token]) for token in dict.fromkeys(control + named)],
        added=[token for token, kind in enumerate(types) if kind == _Type.USER_DEFINED],
        padded_size=padded_size,
    )


def _tokens(metadata: Mapping[str, Value]) -> tuple[list[str], list[int]]:
    """The text and the type of each token."""
    texts, types = metadata.get("tokenizer.ggml.tokens"), metadata.get("tokenizer.ggml.token_type")
    if not isinstance(texts, list) or not isinstance(types, list) or len(texts) != len(types):
        raise VocabularyError("the file has no tokens, or no type for each of them. Convert the model again.")
    return [str(text) for text in texts], [int(kind) for kind in types]


def _spelling(metadata: Mapping[str, Value], types: Sequence[int]) -> Mapping[int, Callable[[str], bytes]]:
    model = metadata.get("tokenizer.ggml.model")
    if not isinstance(model, str) or (spelling := _SPELLINGS.get(model)) is None:
        raise VocabularyError(f"the tokenizer's model is {model!r}, not one of {list(_SPELLINGS)}. Use another file.")
    if unknown := set(types) - {*spelling, *_WITHOUT_BYTES}:
        raise VocabularyError(f"a tokenizer of the model {model!r} has no tokens of type {sorted(unknown)}.")
    return spelling


def _ends(metadata: Mapping[str, Value], size: int) -> list[int]:
    """Ids of what ends a sequence; an id beyond the tokens is how some files say that there is none."""
    named = [metadata.get(f"tokenizer.ggml.{end}_token_id") for end in ("eos", "eot", "eom")]
    return list(dict.fromkeys(token for token in named if isinstance(token, int) and 0 <= token < size))


def _nothing(_text: str) -> bytes:
    return b""
