"""A model's tokens as backends need them: bytes, what each token is, and how wide the logits are.

Loaders for Hugging Face fast tokenizers, tiktoken files and GGUF are in `structout.vocabularies`.
"""

import enum
import hashlib
import itertools
from collections.abc import Iterable, Sequence

import attrs
import numpy as np
import numpy.typing as npt


class TokenKind(enum.IntEnum):
    """What a token is to a grammar.

    TEXT stands for its bytes. ADDED stands for its bytes too, but was added to the tokenizer by hand, so that encoding
    a text yields it whole. CONTROL never stands for text (``<|im_start|>``, end of sequence); a grammar can reach it
    only by name or as a stop token. ABSENT has no meaning: a hole in the ids or padding.
    """

    TEXT = 0
    ADDED = 1
    CONTROL = 2
    ABSENT = 3


class VocabularyError(ValueError):
    """A vocabulary that cannot be built or loaded, with what to do about it. For the operator, before any request."""


def bitmask_width(columns: int) -> int:
    """Number of int32 words in a bitmask row over ``columns`` token ids."""
    return -(-columns // 32)


@attrs.frozen(eq=False, repr=False)
class Vocabulary:
    """The tokens of one model, immutable and packed. Build it with `from_tokens`.

    Two vocabularies are the same if their fingerprints are; ``==`` is identity.

    Attributes:
        data: the bytes of all tokens, one after the other.
        offsets: int32 [size + 1]; token ``i`` is ``data[offsets[i]:offsets[i + 1]]``, empty for CONTROL and ABSENT.
        kinds: uint8 [size], a `TokenKind` each.
        names: the spelling of CONTROL tokens by id, for people and for grammars that name them.
        padded_size: columns of the model's logits, at least ``size``.
        eos_token_ids: what ends a sequence when the request does not say.
        fingerprint: SHA-256 in hex of all of the above.
    """

    data: bytes
    offsets: npt.NDArray[np.int32]
    kinds: npt.NDArray[np.uint8]
    names: tuple[tuple[int, str], ...]
    padded_size: int
    eos_token_ids: tuple[int, ...]
    fingerprint: str = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        if self.padded_size < self.size:
            raise VocabularyError(f"padded_size {self.padded_size} is less than the {self.size} tokens")
        _checked(self.eos_token_ids, self.size, "eos_token_ids")
        for array in (self.offsets, self.kinds):
            array.flags.writeable = False
        # The sizes come first, so that no byte can count as a part of its neighbour.
        sizes = (len(self.data), self.size, self.padded_size)
        digest = hashlib.sha256(repr((sizes, self.eos_token_ids, self.names)).encode())
        for part in (self.data, self.offsets.tobytes(), self.kinds.tobytes()):
            digest.update(part)
        object.__setattr__(self, "fingerprint", digest.hexdigest())

    @classmethod
    def from_tokens(
        cls,
        tokens: Iterable[bytes],
        *,
        eos_token_ids: Sequence[int],
        control: Iterable[tuple[int, str]] = (),
        added: Iterable[int] = (),
        absent: Iterable[int] = (),
        padded_size: int | None = None,
    ) -> "Vocabulary":
        """A vocabulary whose token ``i`` is the ``i``-th of ``tokens``.

        Args:
            tokens: bytes of each token; those of CONTROL and ABSENT tokens are ignored. A token with no bytes that
                is not CONTROL becomes ABSENT: it could be sampled forever without any text coming of it.
            eos_token_ids: ids that end a sequence; they become CONTROL if they have no bytes of their own.
            control: (id, spelling) of control tokens.
            added: ids of textual tokens that were added to the tokenizer.
            absent: ids that mean nothing.
            padded_size: columns of the logits; the number of tokens when not given.

        Raises:
            VocabularyError: (a ValueError) an id is out of range, or ``padded_size`` is too small.
        """
        pieces = list(tokens)
        names = {int(token_id): name for token_id, name in control}
        ends = tuple(map(int, eos_token_ids))
        lengths = np.fromiter(map(len, pieces), np.int32, len(pieces))
        kinds = _kinds(lengths, added=added, absent=absent, control=names, ends=ends)
        lengths[kinds > TokenKind.ADDED] = 0
        offsets = np.zeros(len(pieces) + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        return cls(
            data=b"".join(piece if length else b"" for piece, length in zip(pieces, lengths.tolist(), strict=True)),
            offsets=offsets,
            kinds=kinds,
            names=tuple(sorted(names.items())),
            padded_size=len(pieces) if padded_size is None else int(padded_size),
            eos_token_ids=ends,
        )

    @property
    def size(self) -> int:
        """Number of token ids, those without a meaning included."""
        return len(self.kinds)

    @property
    def bitmask_width(self) -> int:
        """Number of int32 words in a bitmask row: ceil(padded_size / 32)."""
        return bitmask_width(self.padded_size)

    def token(self, token_id: int) -> bytes:
        """Bytes that the token stands for; empty for CONTROL, ABSENT and padding ids."""
        if not 0 <= token_id < self.size:
            return b""
        return self.data[self.offsets[token_id] : self.offsets[token_id + 1]]

    def tokens(self) -> list[bytes]:
        """Bytes of every token by id, as `token` gives them."""
        ends = self.offsets.tolist()
        return [self.data[start:end] for start, end in itertools.pairwise(ends)]

    def byte_tokens(self) -> dict[int, int]:
        """The TEXT token that is one byte alone, for each byte that has one."""
        single = (np.diff(self.offsets) == 1) & (self.kinds == TokenKind.TEXT)
        return {self.data[self.offsets[token]]: token for token in np.flatnonzero(single).tolist()}

    def kind(self, token_id: int) -> TokenKind:
        """What the token is; ABSENT for every id outside the vocabulary."""
        return TokenKind(self.kinds[token_id]) if 0 <= token_id < self.size else TokenKind.ABSENT

    def ids(self, *kinds: TokenKind) -> list[int]:
        """All ids of these kinds, ascending."""
        return np.flatnonzero(np.isin(self.kinds, kinds)).tolist()

    def decode(self, token_ids: Iterable[int]) -> bytes:
        """The text of a token sequence, as bytes: a token may end inside a UTF-8 character."""
        return b"".join(map(self.token, token_ids))

    def __repr__(self) -> str:
        return f"Vocabulary(size={self.size}, padded_size={self.padded_size}, fingerprint={self.fingerprint[:12]})"


def _kinds(
    lengths: npt.NDArray[np.int32],
    *,
    added: Iterable[int],
    absent: Iterable[int],
    control: Iterable[int],
    ends: Iterable[int],
) -> npt.NDArray[np.uint8]:
    """The `TokenKind` of each token, from its length in bytes and what is said of its id."""
    size = len(lengths)
    kinds = np.zeros(size, np.uint8)
    kinds[_checked(added, size, "added")] = TokenKind.ADDED
    kinds[_checked(absent, size, "absent")] = TokenKind.ABSENT
    kinds[lengths == 0] = TokenKind.ABSENT
    kinds[_checked(control, size, "control")] = TokenKind.CONTROL
    kinds[[end for end in _checked(ends, size, "eos_token_ids") if kinds[end] == TokenKind.ABSENT]] = TokenKind.CONTROL
    return kinds


def _checked(token_ids: Iterable[int], size: int, what: str) -> list[int]:
    ids = list(token_ids)
    for token_id in ids:
        if not 0 <= token_id < size:
            raise VocabularyError(f"{what}: {token_id} is not the id of one of the {size} tokens")
    return ids
