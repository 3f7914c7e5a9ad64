"""Vocabularies of tiktoken: its encodings, and the files of ranks that they are made of."""

import binascii
import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from structout.vocabulary import Vocabulary, VocabularyError

if TYPE_CHECKING:
    import tiktoken


def from_tiktoken(
    encoding: "tiktoken.Encoding | str | os.PathLike[str]",
    *,
    eos_token_ids: Sequence[int],
    special_tokens: Mapping[str, int] | None = None,
    padded_size: int | None = None,
) -> Vocabulary:
    """The vocabulary of an encoding or of a file of ranks.

    Args:
        encoding: a ``tiktoken.Encoding``, or the path of a file with a base64 token and its rank on each line
            (``*.tiktoken``, Llama 3's ``tokenizer.model``).
        eos_token_ids: ids that end a sequence; tiktoken does not know them.
        special_tokens: ids by spelling. A file of ranks has none in it, so here they must be all of the model's; an
            encoding has its own, and these come on top.
        padded_size: columns of the model's logits; up to the last id when not given.

    Raises:
        VocabularyError: the file is missing or of another format, two tokens have the same id, an id is out of range.
    """
    pieces, own = _parts(encoding)
    special = own | dict(special_tokens or {})
    _check_ids(pieces, special)
    size = max((*pieces, *special.values()), default=-1) + 1
    return Vocabulary.from_tokens(
        [pieces.get(token_id, b"") for token_id in range(size)],
        eos_token_ids=eos_token_ids,
        control=[(token_id, name) for name, token_id in special.items()],
        padded_size=padded_size,
    )


def _read_ranks(path: str | os.PathLike[str]) -> dict[int, bytes]:
    """The tokens in a file of ranks, by rank, which is their id."""
    try:
        fields = Path(path).read_bytes().split()
        decode = functools.partial(binascii.a2b_base64, strict_mode=True)
        pieces = dict(zip(map(int, fields[1::2]), map(decode, fields[::2]), strict=True))
    except (OSError, ValueError) as error:
        raise VocabularyError(
            f"{os.fspath(path)} cannot be read as a tiktoken file: {error}. "
            "Each of its lines must be a token in base64, a space and its rank."
        ) from error
    if 2 * len(pieces) != len(fields):
        raise VocabularyError(f"{os.fspath(path)} gives two tokens the same rank. Get the file again.")
    return pieces


def _parts(encoding: "tiktoken.Encoding | str | os.PathLike[str]") -> tuple[dict[int, bytes], dict[str, int]]:
    """The textual tokens by id, and the ids of the special ones."""
    if isinstance(encoding, str | os.PathLike):
        return _read_ranks(encoding), {}
    special = {name: encoding.encode_single_token(name) for name in encoding.special_tokens_set}
    pieces = {}
    for token_id in set(range(encoding.n_vocab)).difference(special.values()):
        try:
            pieces[token_id] = encoding.decode_single_token_bytes(token_id)
        except KeyError:
            continue  # A hole in the ids: cl100k_base has several between its special tokens.
    return pieces, special


def _check_ids(pieces: Mapping[int, bytes], special: Mapping[str, int]) -> None:
    ids = [*pieces, *special.values()]
    if len(set(ids)) != len(ids):
        names = [name for name, token_id in special.items() if token_id in pieces]
        raise VocabularyError(f"special tokens {names or list(special)} share ids with others. Number them anew.")
    if min(ids, default=0) < 0:
        raise VocabularyError("a token has a negative id. Number the special tokens from the last rank on.")
