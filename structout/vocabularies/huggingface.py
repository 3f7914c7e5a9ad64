"""Vocabularies of Hugging Face fast tokenizers."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from structout.vocabularies.spelling import byte_level, fallback_byte, spaced
from structout.vocabulary import Vocabulary, VocabularyError

if TYPE_CHECKING:
    import tokenizers


class FastTokenizer(Protocol):
    """What has to be there of a ``transformers.PreTrainedTokenizerFast``."""

    @property
    def backend_tokenizer(self) -> "tokenizers.Tokenizer":
        """The tokenizer that does the work."""
        ...


def from_huggingface(
    tokenizer: "tokenizers.Tokenizer | FastTokenizer",
    *,
    eos_token_ids: Sequence[int] | None = None,
    padded_size: int | None = None,
) -> Vocabulary:
    """The vocabulary of a fast tokenizer, read by its own model and decoder.

    Two families are known, and everything else is refused: byte-level ones (the GPT-2 alphabet), and those like
    SentencePiece, where ``▁`` stands for a space and, with byte fallback, ``<0x0A>`` for a byte. In the second family
    the marker is a space in *every* token, also in the first of an output, where the tokenizer's own decoder drops it:
    what a model writes goes on from a prompt. A text that contains the marker itself comes back with a space there.

    Args:
        tokenizer: of `transformers` or of `tokenizers`.
        eos_token_ids: ids that end a sequence. When not given, those that the tokenizer names as its end of sequence,
            of turn or of message, and those in ``generation_config.json`` in the folder that it was loaded from.
        padded_size: columns of the logits, the ``vocab_size`` of the model's config; up to the last id when not given.

    Raises:
        VocabularyError: the tokenizer is not a fast one or of neither family, it names no end of sequence, an id is out
            of range, or ``padded_size`` is too small.
    """
    backend = backend_of(tokenizer)
    spelling = _spelling(backend.decoder)
    unknown = _unknown_token(backend.model)
    pieces = {token: spelling.own(text) for text, token in backend.get_vocab(with_added_tokens=False).items()}
    added = backend.get_added_tokens_decoder()
    pieces |= {token: spelling.added(text.content) for token, text in added.items()}
    control = {token: text.content for token, text in added.items() if text.special}
    if unknown is not None and (token_id := backend.token_to_id(unknown)) is not None:
        control[token_id] = unknown
    return Vocabulary.from_tokens(
        [pieces.get(token, b"") for token in range(max(pieces, default=-1) + 1)],
        eos_token_ids=_ends(tokenizer) if eos_token_ids is None else eos_token_ids,
        control=control.items(),
        added=added,
        padded_size=padded_size,
    )


def backend_of(tokenizer: "tokenizers.Tokenizer | FastTokenizer") -> "tokenizers.Tokenizer":
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise VocabularyError("the package tokenizers cannot be imported. Install structout[tokenizers].") from error
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not isinstance(backend, Tokenizer):
        raise VocabularyError(
            f"{type(tokenizer).__name__} is not a fast tokenizer. Load it with AutoTokenizer.from_pretrained, or "
            "convert it to a tokenizer.json."
        )
    return backend


def _unknown_token(model: Any) -> str | None:
    """What the model encodes unknown characters to. Refuses models whose tokens are not simply parts of a text."""
    from tokenizers import models

    match model:
        case models.BPE(continuing_subword_prefix=None | "", end_of_word_suffix=None | ""):
            return model.unk_token
        case models.Unigram():
            state = json.loads(model.__getstate__())
            return None if state["unk_id"] is None else state["vocab"][state["unk_id"]][0]
        case models.BPE():
            what = "BPE with a prefix or suffix for parts of words"
        case _:
            what = type(model).__name__
    raise VocabularyError(f"the tokenizer's model is {what}. Use a model with a byte-level or SentencePiece tokenizer.")


@attrs.frozen
class _Spelling:
    """How the bytes of the model's own tokens and of added ones are read."""

    own: Callable[[str], bytes]
    added: Callable[[str], bytes]


def _spelling(decoder: Any) -> _Spelling:
    """Reads the decoder step by step: each step must do the same to single tokens as to a whole sequence."""
    steps = list(_steps(_state(decoder)))
    if [step.get("type") for step in steps] == ["ByteLevel"]:
        return _Spelling(own=byte_level, added=str.encode)
    marker, byte_fallback, fused = None, False, False
    for step in steps:
        match step:
            case {"type": "Metaspace", "replacement": found}:
                marker = found
            case {"type": "Replace", "pattern": {"String": found}, "content": " "} if len(found) == 1:
                marker = found
            case {"type": "ByteFallback"} if not fused:
                byte_fallback = True
            case {"type": "Fuse"}:
                fused = True
            case {"type": "Strip", "content": " ", "stop": 0} if fused:
                pass  # The space before the first word, see `from_huggingface`.
            case _:
                raise VocabularyError(_unknown_decoder(step))
    if marker is None:
        raise VocabularyError(_unknown_decoder(_state(decoder)))
    spell = _sentencepiece(marker, byte_fallback)
    return _Spelling(own=spell, added=spell)


def _sentencepiece(marker: str, byte_fallback: bool) -> Callable[[str], bytes]:
    def spell(token: str) -> bytes:
        byte = fallback_byte(token) if byte_fallback else None
        return spaced(token, marker) if byte is None else byte

    return spell


def _state(decoder: Any) -> dict[str, Any]:
    """The decoder as in ``tokenizer.json``; empty when there is none."""
    try:
        return {} if decoder is None else json.loads(decoder.__getstate__())
    except Exception as error:  # What `tokenizers` raises for a decoder written in Python is no narrower.
        raise VocabularyError(
            f"the tokenizer's decoder cannot be read ({error}). Use a decoder of `tokenizers`."
        ) from error


def _steps(decoder: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if decoder.get("type") == "Sequence":
        for part in decoder["decoders"]:
            yield from _steps(part)
    else:
        yield decoder


def _unknown_decoder(decoder: dict[str, Any]) -> str:
    return (
        f"the tokenizer's decoder is neither byte-level nor like SentencePiece's: {json.dumps(decoder)}. "
        "Build the Vocabulary from the tokens' bytes with Vocabulary.from_tokens."
    )


def _ends(tokenizer: object) -> list[int]:
    """Ids of what ends a sequence, the tokenizer's own first."""
    named = [getattr(tokenizer, f"{end}_token_id", None) for end in ("eos", "eot", "eom")]
    found = [token for token in named if token is not None] + _configured_ends(getattr(tokenizer, "name_or_path", None))
    if not found:
        raise VocabularyError("the tokenizer names no end of sequence. Pass eos_token_ids.")
    return list(dict.fromkeys(found))


def _configured_ends(folder: str | None) -> list[int]:
    file = Path(folder or "") / "generation_config.json"
    if not folder or not file.is_file():
        return []
    try:
        config = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise VocabularyError(f"{file} cannot be read: {error}. Repair it, or pass eos_token_ids.") from error
    match config:
        case {"eos_token_id": int(end)}:
            return [end]
        case {"eos_token_id": [*ends]} if all(isinstance(end, int) for end in ends):
            return ends
        case {"eos_token_id": found} if found is not None:
            raise VocabularyError(f"eos_token_id in {file} is {found!r}. Repair it, or pass eos_token_ids.")
    return []
