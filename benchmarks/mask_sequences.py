"""The masks that generations went through, step by step, and the file that they are kept in."""

from collections.abc import Iterable
from pathlib import Path

import attrs
import numpy as np
import numpy.typing as npt
import typer

from structout.backend import Bitmask


@attrs.frozen(eq=False)
class MaskSequences:
    """Masks of generations, each mask once. In a file (.npz of numpy's) they are arrays of these names.

    Attributes:
        masks: int32 [masks, ceil(vocabulary / 32)], no two alike.
        steps: uint32 [steps], the mask of each step, one generation behind the other.
        ends: int64 [generations], where each ends in ``steps``.
        vocabulary: tokens.
    """

    masks: Bitmask
    steps: npt.NDArray[np.uint32]
    ends: npt.NDArray[np.int64]
    vocabulary: int

    @classmethod
    def of(cls, vocabulary: int, generations: Iterable[Iterable[bytes]]) -> "MaskSequences":
        """From the words of each step's mask."""
        known: dict[bytes, int] = {}
        steps: list[int] = []
        ends: list[int] = []
        for generation in generations:
            steps += [known.setdefault(mask, len(known)) for mask in generation]
            ends.append(len(steps))
        masks = np.frombuffer(b"".join(known), np.int32).reshape(len(known), -(-vocabulary // 32))
        return cls(masks, np.array(steps, np.uint32), np.array(ends, np.int64), vocabulary)

    @property
    def generations(self) -> list[npt.NDArray[np.uint32]]:
        """The steps of each."""
        return np.split(self.steps, self.ends[:-1])

    def save(self, path: Path) -> None:
        """Writes what `read` reads."""
        np.savez_compressed(path, **attrs.asdict(self, recurse=False))

    @classmethod
    def read(cls, path: Path) -> "MaskSequences":
        """Raises typer.BadParameter if the file does not hold any."""
        try:
            with np.load(path) as arrays:
                found = cls(arrays["masks"], arrays["steps"], arrays["ends"], int(arrays["vocabulary"]))
        except (OSError, ValueError, KeyError) as exc:
            raise typer.BadParameter(f"{path} has no sequences of masks: python -m benchmarks.record_masks") from exc
        if not len(found.steps):
            raise typer.BadParameter(f"{path} has sequences of no masks")
        return found
