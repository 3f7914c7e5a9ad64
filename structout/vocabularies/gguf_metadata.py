"""The metadata at the start of a GGUF file, read without the tensors that follow.

Source of the format: ``docs/gguf.md`` in the ggml repository, versions 2 and 3, little-endian. The reader in the
package `gguf` makes array views of every string, which takes some thirty times as long for a vocabulary.
"""

import mmap
import os
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import attrs
import numpy as np

from structout.vocabulary import VocabularyError

Scalar: TypeAlias = bool | int | float | str
Value: TypeAlias = Scalar | list[bool] | list[int] | list[float] | list[str]

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_STRING: Final = 8
_ARRAY: Final = 9
_NUMBERS: Final[Mapping[int, np.dtype[Any]]] = {
    0: np.dtype("u1"),
    1: np.dtype("i1"),
    2: np.dtype("<u2"),
    3: np.dtype("<i2"),
    4: np.dtype("<u4"),
    5: np.dtype("<i4"),
    6: np.dtype("<f4"),
    7: np.dtype("?"),
    10: np.dtype("<u8"),
    11: np.dtype("<i8"),
    12: np.dtype("<f8"),
}


def read_metadata(path: str | os.PathLike[str]) -> Mapping[str, Value]:
    """All key-value pairs of a GGUF file, arrays as lists.

    Raises:
        VocabularyError: the file is missing, cut off, or no GGUF of a known version.
    """
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Cursor(data).metadata()
    except (OSError, ValueError) as error:
        raise VocabularyError(f"{os.fspath(path)} cannot be read as GGUF: {error}.") from error


@attrs.define
class _Cursor:
    """A place in a file. Each method reads what comes next and moves past it; ValueError where that is not there."""

    data: mmap.mmap
    at: int = 0

    def metadata(self) -> dict[str, Value]:
        if self.take(4) != _MAGIC:
            raise ValueError("it does not start with GGUF")
        if (version := self.number(4)) not in _VERSIONS:
            raise ValueError(f"version {version} is not among {_VERSIONS}")
        self.take(8)  # Number of tensors.
        return {self.string(): self.value() for _ in range(self.length())}

    def value(self) -> Value:
        kind = int(self.number(4))
        return self.array() if kind == _ARRAY else self.scalar(kind)

    def scalar(self, kind: int) -> Scalar:
        return self.string() if kind == _STRING else self.number(kind)

    def array(self) -> list[bool] | list[int] | list[float] | list[str]:
        kind, length = int(self.number(4)), self.length()
        if kind == _STRING:
            return [self.string() for _ in range(length)]
        dtype = _dtype(kind)
        numbers: list[bool] | list[int] | list[float] = np.frombuffer(
            self.take(length * dtype.itemsize), dtype
        ).tolist()
        return numbers

    def number(self, kind: int) -> bool | int | float:
        dtype = _dtype(kind)
        number: bool | int | float = np.frombuffer(self.take(dtype.itemsize), dtype).item()
        return number

    def string(self) -> str:
        return self.take(self.length()).decode()

    def length(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def take(self, size: int) -> bytes:
        found = self.data[self.at : self.at + size]
        if len(found) < size:
            raise ValueError(f"it ends after {len(self.data)} bytes, in the middle of its metadata")
        self.at += size
        return found


def _dtype(kind: int) -> np.dtype[Any]:
    if kind not in _NUMBERS:
        raise ValueError(f"a value has the unknown or nested type {kind}")
    return _NUMBERS[kind]
