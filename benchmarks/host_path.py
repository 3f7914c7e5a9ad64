"""What a step's masks cost between the last filled row and the launch: ``python -m benchmarks.host_path masks.npz``

Sequences of masks that `benchmarks.record_masks` has written are gone through again, so many at once; whoever is at the
end makes room for the next. A filler's threads write the rows, as if a backend did, and look them up in a table of
recent masks. Once all rows are filled, the stepping thread does what it does in an engine: `wait`, which sorts out what
became of the rows, and `StepMasks.send`, which sends what the table lacks and makes the row map. That is timed, in
processor time of this thread; the best of some rounds counts. Each step's masks are compared with what was recorded.

It also says which share of the bitmasks was sent, what is done behind the launch, and what looking a row up takes the
threads that fill. Where there is no CUDA device the CPU stands in for it: then the stepping thread itself copies what
is sent, which a device does on its own. In every other round that is done before the clock starts, to show what is
left.
"""

import gc
import itertools
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import torch
import typer

from benchmarks.mask_sequences import MaskSequences
from benchmarks.output import show
from engine_adapter.filling import Filler, wait
from engine_adapter.sampling.mask_table import ENTRIES, MaskTable, StepMasks
from structout.backend import BackendInfo, Bitmask, BitmaskRow, CompiledGrammar, Finding, Matcher, Status
from structout.constraint import Constraint
from structout.errors import GrammarError
from structout.grammar import BoundBackend, Grammar
from structout.result import Ok, Result
from structout.spec import Choice, GrammarSpec
from structout.vocabulary import Vocabulary

Indices = npt.NDArray[np.int64]

BATCHES: Final = (1, 8, 32, 256)
STEP_US, ROW_US, SENT_SHARE = 10.0, 0.1, 0.2
"""The bounds: microseconds a step and a row, and the share of the bitmasks that is sent."""


@attrs.define(eq=False)
class Replay:
    """A matcher whose masks are those of a generation, whatever tokens it is given."""

    masks: Bitmask
    steps: Sequence[int]
    step: int = 0

    @property
    def mask(self) -> int:
        """Which of ``masks`` is the next one."""
        return self.steps[self.step]

    @property
    def is_over(self) -> bool:
        """Whether there is no mask behind the next one."""
        return self.step == len(self.steps) - 1

    def fill(self, row: BitmaskRow) -> Status:
        row[:] = self.masks[self.mask]
        return Status.OK

    def accept(self, token: int) -> Status:
        self.step += 1
        return Status.OK

    is_accepting = is_terminated = False


@attrs.frozen(eq=False)
class Generation:
    """A grammar whose matchers replay one generation."""

    masks: Bitmask
    steps: Sequence[int]
    unenforced: Sequence[Finding] = ()
    narrowed: Sequence[Finding] = ()

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> Matcher:
        return Replay(self.masks, self.steps)


class Recorded:
    """A backend that compiles the number of a generation, and fills rows in batches, as native ones do."""

    def __init__(self, sequences: MaskSequences) -> None:
        self._masks = sequences.masks
        self._generations = [each.tolist() for each in sequences.generations]

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        assert isinstance(spec, Choice)
        return Ok(Generation(self._masks, self._generations[int(spec.options[0])]))

    def fill_batch(self, matchers: Sequence[Replay], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        return [matcher.fill(bitmask[row]) for matcher, row in zip(matchers, rows, strict=True)]

    @classmethod
    def grammars(cls, sequences: MaskSequences) -> list[Grammar]:
        """One for each generation that has a mask."""
        info = BackendInfo(id="recorded", create=lambda _: cls(sequences), spec_kinds=frozenset({"choice"}))
        tokens = Vocabulary.from_tokens([b"a", b"b"], eos_token_ids=[1], padded_size=sequences.vocabulary)
        backend = BoundBackend.create(info, None, tokens).unwrap()
        return [
            backend.compile(Choice((str(number),))).unwrap()
            for number, steps in enumerate(sequences.generations)
            if len(steps)
        ]


@attrs.frozen
class Spent:
    """What some steps took.

    Attributes:
        steps: how many there were.
        step_us: what the stepping thread took for one, from the last filled row to the launch.
        end_us: what it took for `StepMasks.end`, behind the launch.
        place_us: what a thread that fills takes to look one row up.
        sent_share: the bytes that were sent by those of the bitmasks.
    """

    steps: int
    step_us: float
    end_us: float
    place_us: float
    sent_share: float


class Placing:
    """`StepMasks`, with a watch.

    Attributes:
        ns: what `place` took, in nanoseconds of its thread.
    """

    def __init__(self, masks: StepMasks) -> None:
        self.close = masks.close
        self.ns = 0
        self._masks = masks

    def place(self, bitmask: Bitmask, rows: Sequence[int], indices: Sequence[int]) -> None:
        began = time.thread_time_ns()
        self._masks.place(bitmask, rows, indices)
        self.ns += time.thread_time_ns() - began


def replay(
    sequences: MaskSequences,
    grammars: Sequence[Grammar],
    batch: int,
    *,
    steps: int,
    entries: int,
    device: torch.device,
    sends_ahead: bool = False,
) -> Spent:
    """Goes through the generations, ``batch`` at once, for so many steps, or until there are no more.

    With ``sends_ahead`` what the table lacks is sent before the clock starts.

    Raises:
        RuntimeError: the sampler would see something else than what was recorded.
    """
    width = sequences.masks.shape[1]
    table, filler = MaskTable(batch, width, device, entries=entries), Filler(batch, width, budget_s=60.0)
    waiting = (grammar.start().unwrap() for grammar in grammars)
    running = list(itertools.islice(waiting, batch))
    order = np.random.default_rng(0).permutation(batch)  # the rows of the logits have an order of their own
    stepping_ns = ending_ns = placing_ns = done = 0
    while len(running) == batch and done < steps:
        masks = table.begin()
        places = Placing(masks)
        filling = filler.begin(running, places=places)
        filling.can_go_on_within(60.0, others_go_on=False)
        if sends_ahead:
            masks.send(order)
        began = time.thread_time_ns()
        wait(filling)
        bitmask, row_map = masks.send(order)
        stepping_ns += time.thread_time_ns() - began
        _check(sequences, running, bitmask.cpu().numpy(), row_map[np.argsort(order)])
        began = time.thread_time_ns()
        masks.end()
        ending_ns += time.thread_time_ns() - began
        filling.end()
        placing_ns, done = placing_ns + places.ns, done + 1
        running = [each for each in map(_moved, running, itertools.repeat(waiting)) if each is not None]
    filler.close()
    if not done:
        raise typer.BadParameter(f"there are {len(grammars)} generations: record more for {batch} at once")
    rows = batch * done
    return Spent(
        steps=done,
        step_us=stepping_ns / done / 1e3,
        end_us=ending_ns / done / 1e3,
        place_us=placing_ns / rows / 1e3,
        sent_share=table.bytes_sent / (rows * 4 * width),
    )


def _check(sequences: MaskSequences, running: Sequence[Constraint], bitmask: Bitmask, slots: Indices) -> None:
    expected = sequences.masks[[_matcher(each).mask for each in running]]
    if (slots < 0).any() or not np.array_equal(bitmask[slots], expected):
        raise RuntimeError("the sampler would see other masks than were recorded")


def _moved(constraint: Constraint, waiting: Iterator[Constraint]) -> Constraint | None:
    """A sequence's constraint in the next step, or that of the sequence that takes its place, if there is one."""
    if _matcher(constraint).is_over:
        return next(waiting, None)
    constraint.accept(0)
    return constraint


def _matcher(constraint: Constraint) -> Replay:
    assert isinstance(constraint.matcher, Replay)
    return constraint.matcher


def best(found: Sequence[Spent]) -> Spent:
    """The least time of each kind. The rest is the same in every round."""
    times = {name: min(getattr(each, name) for each in found) for name in ("step_us", "end_us", "place_us")}
    return attrs.evolve(found[0], **times)


def fitted(step_us: Mapping[int, float]) -> tuple[float, float]:
    """Microseconds a step, and a row: least squares over the batches."""
    row, step = np.polyfit(list(step_us), list(step_us.values()), 1)
    return float(step), float(row)


def device() -> torch.device:
    """Where the table is: on a CUDA device if there is one, else the CPU stands in for it."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def main(
    file: Annotated[Path, typer.Argument(help="What benchmarks.record_masks has written.")],
    batch: Annotated[list[int], typer.Option(min=1, help="Rows of a step.")] = list(BATCHES),  # noqa: B006
    steps: Annotated[int, typer.Option(min=1, help="Most steps of a round.")] = 2000,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, of which the best counts.")] = 5,
    entries: Annotated[int, typer.Option(min=1, help="Masks that the table keeps.")] = ENTRIES,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Prints what the stepping thread takes, and what is sent. The exit code is 1 if it is more than the bounds."""
    sequences = MaskSequences.read(file)
    grammars = Recorded.grammars(sequences)
    found: dict[tuple[int, bool], list[Spent]] = {(rows, ahead): [] for rows in batch for ahead in (False, True)}
    gc.collect()
    gc.disable()
    for _ in range(rounds):
        for (rows, ahead), so_far in found.items():
            so_far.append(
                replay(sequences, grammars, rows, steps=steps, entries=entries, device=device(), sends_ahead=ahead)
            )
    spent = {rows: best(found[rows, False]) for rows in batch}
    share = max(each.sent_share for each in spent.values())
    is_within = share <= SENT_SHARE and all(each.step_us <= STEP_US + ROW_US * rows for rows, each in spent.items())
    figures: dict[str, Any] = {"device": str(device()), "generations": len(grammars), "steps": len(sequences.steps)}
    for rows, each in spent.items():
        figures[f"batch {rows}"] = {
            "steps": each.steps,
            "us a step": round(each.step_us, 2),
            "bound": STEP_US + ROW_US * rows,
            "without the copy": round(best(found[rows, True]).step_us, 2),
            "behind the launch": round(each.end_us, 2),
            "sent": round(each.sent_share, 4),
            "looked up, us a row": round(each.place_us, 2),
        }
    if len(spent) > 1:
        step_us, row_us = fitted({rows: each.step_us for rows, each in spent.items()})
        figures["least squares"] = {"us a step": round(step_us, 2), "us a row": round(row_us, 3)}
    show(figures | {"bounds": {"us a step": STEP_US, "us a row": ROW_US, "sent": SENT_SHARE}}, as_json=as_json)
    sys.exit(not is_within)


if __name__ == "__main__":
    typer.run(main)
