"""The parameters and random numbers of the requests that are running, as arrays.

A request joins once and gets a slot; each step gathers the rows it samples, in any order, with one draw each.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt

from engine_adapter.sampling.params import SamplingParams
from engine_adapter.sampling.penalties import LogitChanges, TokenCounts

SETTINGS: Final = np.dtype(
    [
        ("temperature", np.float32),
        ("top_k", np.int64),
        ("top_p", np.float64),
        ("min_p", np.float64),
        ("logprobs", np.int64),
    ],
    align=True,
)
"""What each row's request asks for."""
_CHUNK: Final = 64  # draws made at once: making a generator costs as much as a hundred draws
_DRAWS_PER_COUNT: Final = 4  # Philox4x64 gives four 64-bit words for each value of its counter


def request_uniform(seed: int, position: int) -> float:
    """The number in [0, 1) that decides token ``position`` (from 0) of a request: 53 bits, from (seed, position) alone.

    It is draw ``position`` of ``numpy.random.Generator(numpy.random.Philox(key=seed mod 2**64)).random()``, found
    by counter without drawing those before. Philox: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
    """
    return float(_uniform_chunk(seed, position // _CHUNK)[position % _CHUNK])


def _uniform_chunk(seed: int, chunk: int) -> npt.NDArray[np.float64]:
    counter = chunk * (_CHUNK // _DRAWS_PER_COUNT)
    return np.random.Generator(np.random.Philox(key=seed % 2**64, counter=counter)).random(_CHUNK)


def _contiguous(table: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    return np.ascontiguousarray(table, dtype=SETTINGS)


@attrs.frozen(eq=False)
class StepSettings:
    """What the rows of a step ask for: the same object in every step that has the same requests in it.

    Attributes:
        table: `SETTINGS` [n], contiguous.
        alternatives: most alternatives that any row asks for.
        address: of the table's memory. To ask NumPy for it costs as much as to sample a row.
    """

    table: npt.NDArray[np.void] = attrs.field(converter=_contiguous)
    alternatives: int = attrs.field(init=False)
    address: int = attrs.field(init=False)

    @alternatives.default
    def _find_alternatives(self) -> int:
        return max(0, int(self.table["logprobs"].max(initial=-1)))

    @address.default
    def _find_address(self) -> int:
        return self.table.ctypes.data

    def __reduce__(self) -> tuple[type["StepSettings"], tuple[npt.NDArray[np.void]]]:
        return StepSettings, (self.table,)  # a copy's table is elsewhere


@attrs.define(eq=False, kw_only=True)
class SamplingRows:
    """What the sampler needs to know of each logits row of one step, on the host.

    Attributes:
        settings: what the rows ask for, with a property for each column:
            temperature: float32 [n]; 0 is greedy.
            top_k: int64 [n]; 0 is off.
            top_p: float64 [n]; 1 is off.
            min_p: float64 [n]; 0 is off.
            logprobs: int64 [n]; alternatives to report, -1 for no log-probability at all.
        draws: float64 [n] in [0, 1); greedy rows do not read theirs. Python's array, of typecode "d": beside a forward
            pass NumPy's is slow to make.
        changes: what bias and penalties do to each row, None where they do nothing; None if they do to no row.
    """

    settings: StepSettings
    draws: "array[float]"
    changes: tuple[LogitChanges | None, ...] | None = None

    @property
    def temperature(self) -> npt.NDArray[np.float32]:
        return self.settings.table["temperature"]

    @property
    def top_k(self) -> npt.NDArray[np.int64]:
        return self.settings.table["top_k"]

    @property
    def top_p(self) -> npt.NDArray[np.float64]:
        return self.settings.table["top_p"]

    @property
    def min_p(self) -> npt.NDArray[np.float64]:
        return self.settings.table["min_p"]

    @property
    def logprobs(self) -> npt.NDArray[np.int64]:
        return self.settings.table["logprobs"]

    @property
    def uniforms(self) -> npt.NDArray[np.float64]:
        """The draws, as NumPy's array: float64 [n]."""
        return np.asarray(self.draws)

    def __len__(self) -> int:
        return len(self.draws)

    @property
    def truncated(self) -> npt.NDArray[np.bool_]:
        """bool [n]: rows that ask for top-k, top-p or min-p."""
        return np.asarray((self.top_k > 0) | (self.top_p < 1.0) | (self.min_p > 0.0))

    def take(self, index: npt.NDArray[np.intp]) -> "SamplingRows":
        """The rows at ``index``, in its order."""
        changes = None if self.changes is None else _changes_column([self.changes[row] for row in index.tolist()])
        settings, draws = StepSettings(self.settings.table[index]), array("d", self.uniforms[index].tobytes())
        return SamplingRows(settings=settings, draws=draws, changes=changes)

    @classmethod
    def of(
        cls,
        params: Sequence[SamplingParams],
        uniforms: Sequence[float],
        so_far: Sequence[tuple[Sequence[int], Sequence[int]]] | None = None,
    ) -> "SamplingRows":
        """A row for each of ``params``, with the draws given, and prompt and output of each so far, if any."""
        if len(uniforms) != len(params):
            raise ValueError(f"{len(params)} rows but {len(uniforms)} draws")
        so_far = so_far or [((), ())] * len(params)
        changes = [
            TokenCounts(each, prompt).changes(output, len(output)) if each.changes_logits else None
            for each, (prompt, output) in zip(params, so_far, strict=True)
        ]
        return cls(
            settings=StepSettings(np.array([_settings(each) for each in params], dtype=SETTINGS)),
            draws=array("d", uniforms),
            changes=_changes_column(changes),
        )


def _settings(params: SamplingParams) -> tuple[float, int, float, float, int]:
    temperature = 0.0 if params.is_greedy else params.temperature
    logprobs = -1 if params.logprobs is None else params.logprobs
    return temperature, params.top_k, params.top_p, params.min_p, logprobs


def _changes_column(changes: Sequence[LogitChanges | None]) -> tuple[LogitChanges | None, ...] | None:
    return None if all(each is None for each in changes) else tuple(changes)


class SamplingBatch:
    """The sampling state of the running requests. Grows as needed; not thread-safe (it belongs to the stepping thread).

    A seeded request draws the same numbers in whatever batch and slot it is, and again after preemption, because
    a draw depends on (seed, position) only.
    """

    def __init__(self) -> None:
        self._settings = np.zeros(0, dtype=SETTINGS)  # of the slots
        self._chunks: list[int | None] = []  # of the slots: which chunk of the request's draws is at hand
        self._uniforms = array("d")  # those chunks, one behind the other; quicker to pick a few from than NumPy's
        self._seeds: dict[int, int] = {}  # of the slots that are not free
        self._counts: dict[int, TokenCounts] = {}  # of the slots whose logits change
        self._free: list[int] = []
        self._last: tuple[list[int], StepSettings] | None = None  # the last step's, if nobody has joined or left since

    def join(self, params: SamplingParams, prompt: Iterable[int] = ()) -> int:
        """Admits a request and returns its slot. Without a seed it gets one from the operating system here.

        ``prompt`` are its token ids, which matter to its repetition penalty only.
        """
        # Whatever ``params`` may raise is raised before there is a slot that could get lost.
        settings, seed = _settings(params), params.seeded().seed
        assert seed is not None, "that is what seeding is"
        counts = TokenCounts(params, prompt) if params.changes_logits else None
        if not self._free:
            self._grow()
        self._last = None
        slot = self._free.pop()
        self._settings[slot] = settings
        self._chunks[slot] = None
        self._seeds[slot] = seed
        if counts is not None:
            self._counts[slot] = counts
        return slot

    def leave(self, slot: int) -> None:
        """Frees a slot. Raises ValueError if it is free."""
        self._check([slot])
        self._last = None
        del self._seeds[slot]
        self._counts.pop(slot, None)
        self._free.append(slot)

    def rows(
        self, slots: Sequence[int], positions: Sequence[int], outputs: Sequence[Sequence[int]] | None = None
    ) -> SamplingRows:
        """What each logits row of a step is sampled with.

        Args:
            slots: the request of each row; a request may have several rows (drafts).
            positions: which of its request's output tokens each row decides, from 0.
            outputs: the output tokens before that one of each row's request, and any behind it; needed where a request
                has penalties.

        Raises:
            ValueError: a slot is free, a position is below 0, they differ in length, or tokens that penalties need are
                not there.
        """
        if len(slots) != len(positions):
            raise ValueError(f"{len(slots)} slots but {len(positions)} positions")
        if outputs is not None and len(outputs) != len(slots):
            raise ValueError(f"{len(slots)} slots but {len(outputs)} outputs")
        slots = list(slots)
        if self._last is None or self._last[0] != slots:
            self._check(slots)
            self._last = slots, StepSettings(self._settings[np.array(slots, dtype=np.intp)])
        return SamplingRows(
            settings=self._last[1],
            draws=self._draws(slots, positions),
            changes=self._changes(slots, positions, outputs) if self._counts else None,
        )

    def _changes(
        self, slots: Sequence[int], positions: Sequence[int], outputs: Sequence[Sequence[int]] | None
    ) -> tuple[LogitChanges | None, ...] | None:
        return _changes_column(
            [
                counts.changes(outputs[row] if outputs else (), positions[row])
                if (counts := self._counts.get(slot))
                else None
                for row, slot in enumerate(slots)
            ]
        )

    def _draws(self, slots: Sequence[int], positions: Sequence[int]) -> "array[float]":
        chunks, uniforms = self._chunks, self._uniforms
        draws: list[float] = []
        for slot, position in zip(slots, positions, strict=True):
            chunk, offset = divmod(position, _CHUNK)
            if chunk != chunks[slot]:
                self._draw_chunk(slot, chunk)
            draws.append(uniforms[slot * _CHUNK + offset])
        return array("d", draws)

    def _draw_chunk(self, slot: int, chunk: int) -> None:
        if chunk < 0:
            raise ValueError("positions count from 0")
        if self._settings[slot]["temperature"] > 0:
            drawn = _uniform_chunk(self._seeds[slot], chunk)
            self._uniforms[slot * _CHUNK : (slot + 1) * _CHUNK] = array("d", drawn.tobytes())
        self._chunks[slot] = chunk

    def _check(self, slots: Iterable[int]) -> None:
        for slot in slots:
            if slot not in self._seeds:
                raise ValueError(f"slot {slot} is free")

    def _grow(self) -> None:
        old = len(self._chunks)
        more = max(8, old)
        self._settings = np.concatenate([self._settings, np.zeros(more, dtype=SETTINGS)])
        self._chunks += [None] * more
        self._uniforms.frombytes(bytes(8 * _CHUNK * more))
        self._free += range(old + more - 1, old - 1, -1)
