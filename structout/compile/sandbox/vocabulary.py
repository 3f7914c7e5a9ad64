"""A vocabulary as bytes that carry no code, for the processes that need it."""

import io
import json

import numpy as np

from structout.vocabulary import Vocabulary


def pack(vocabulary: Vocabulary) -> bytes:
    """The vocabulary as a NumPy archive of arrays of numbers."""
    rest = [vocabulary.names, vocabulary.padded_size, vocabulary.eos_token_ids]
    file = io.BytesIO()
    np.savez(
        file,
        data=np.frombuffer(vocabulary.data, np.uint8),
        offsets=vocabulary.offsets,
        kinds=vocabulary.kinds,
        rest=np.frombuffer(json.dumps(rest).encode(), np.uint8),
    )
    return file.getvalue()


def unpack(packed: bytes) -> Vocabulary:
    """The inverse of `pack`, the fingerprint included. Raises some exception on anything else."""
    with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
        names, padded_size, eos_token_ids = json.loads(arrays["rest"].tobytes())
        return Vocabulary(
            data=arrays["data"].tobytes(),
            offsets=arrays["offsets"],
            kinds=arrays["kinds"],
            names=tuple((token_id, name) for token_id, name in names),
            padded_size=padded_size,
            eos_token_ids=tuple(eos_token_ids),
        )
