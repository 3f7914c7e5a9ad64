"""A compiled grammar as bytes: a line of JSON that says whose it is and what it holds, then the index of the library.

The library reads any bytes that it is given, and would allocate what they claim. So they are checked first: whether
they are what was written, for the same library and vocabulary.
"""

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping
from typing import Any, Final

from structout.errors import ErrorKind, GrammarError
from structout.result import Err, Ok, Result

_FORMAT: Final = 1


def packed(index: bytes, said: Mapping[str, Any], *, vocabulary: str) -> bytes:
    """The bytes that `unpacked` reads.

    Args:
        index: as the library writes it.
        said: what else belongs to the grammar; JSON.
        vocabulary: fingerprint of the one that the index is for.
    """
    head = _owner(vocabulary) | {"sha256": hashlib.sha256(index).hexdigest(), "said": said}
    return json.dumps(head).encode() + b"\n" + index


def unpacked(data: bytes, *, vocabulary: str) -> Result[tuple[bytes, dict[str, Any]], GrammarError]:
    """The index and what was said of it; an error if that was not for this vocabulary, or is damaged."""
    line, _, index = data.partition(b"\n")
    try:
        head = json.loads(line)
        if any(head[name] != value for name, value in _owner(vocabulary).items()):
            return Err(_unreadable("it was saved for another vocabulary, or by another version"))
        if head["sha256"] != hashlib.sha256(index).hexdigest():
            return Err(_unreadable("its bytes are not those that were saved"))
        return Ok((index, head["said"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return Err(_unreadable("it is not what outlines saves"))


def _unreadable(reason: str) -> GrammarError:
    return GrammarError(kind=ErrorKind.BACKEND_FAILURE, message=f"The saved grammar cannot be used: {reason}.")


def _owner(vocabulary: str) -> dict[str, Any]:
    # The format of an index is the library's own, and not said to be the same in the next version.
    return {"format": _FORMAT, "library": importlib.metadata.version("outlines_core"), "vocabulary": vocabulary}
