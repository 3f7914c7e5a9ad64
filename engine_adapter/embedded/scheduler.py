"""What runs in the next step: which rows decode, which prompts get how many tokens of the budget, who has to give way.

A row here is a KV row: where the model keeps one sequence's keys and values. Rows are kept dense: rows
``0 .. decoding - 1`` decode, the rows behind them are prefilled, nothing lies between.

The states are authoritative; the queue and the rows follow them, and may lag behind: an entry counts while its
sequence is in a state that belongs there.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

import attrs

from engine_adapter.embedded.model import ModelRunner
from engine_adapter.embedded.request import Decoding, Prefilling, Sequence, Waiting
from engine_adapter.embedded.sharing import Sharing

POOLED_PART: Final = 8
"""While anybody generates, or waits to, a step computes one chunk of one embedding at most, and of no more than this
part of the step's tokens: an eighth. That bounds how long the longest steps are; how often there is one, `Sharing`
decides. Measured with SmolLM2 on a CPU, at 256 tokens a step: one in which one sequence decodes takes 3.6 times as long
beside such a chunk, 12 times beside all that is left."""

LEAST_PART: Final = 8
"""A prompt is cut only into chunks of at least this part of a step's tokens: an eighth. A forward pass over a few
tokens reads as many weights as one over many. Measured with SmolLM2 on a CPU, one over a single token takes almost a
third as long as one over 42."""


@attrs.frozen(eq=False)
class Chunk:
    """A part of one sequence's tokens to compute in this step: those from ``start`` up to ``end``, at least one."""

    sequence: Sequence
    row: int
    start: int
    end: int

    @property
    def completes(self) -> bool:
        """Whether the sequence's next token can be sampled from this chunk's logits."""
        return self.end == self.sequence.known

    def tokens(self) -> list[int]:
        return self.sequence.known_tokens(self.start, self.end)


@attrs.frozen(eq=False)
class Plan:
    """One step: ``decode[i]`` adds its tokens to row ``i``, in one pass; each of ``chunks`` prefills its row."""

    decode: tuple[Chunk, ...]
    chunks: tuple[Chunk, ...]

    def sequences(self) -> list[Sequence]:
        """All that the step computes something for."""
        return [chunk.sequence for chunk in (*self.decode, *self.chunks)]

    def sampled(self) -> list[Sequence]:
        """Sequences whose next token this step decides: those that decode, then those whose last chunk it is."""
        return [
            chunk.sequence for chunk in (*self.decode, *self.chunks) if chunk.completes and chunk.sequence.pool is None
        ]


@attrs.define
class Budget:
    """How many tokens of prompts a step may still compute; of these, ``pooled`` for embeddings, in one chunk unless
    embeddings are ``alone``. Any other prompt that is cut is cut into chunks of ``least`` tokens at least, or waits for
    the next step if this one has ``begun`` another."""

    left: int
    pooled: int
    alone: bool
    least: int
    begun: bool = False

    def force(self, wanted: int) -> int:
        """Takes as many as there are for forced tokens, ``wanted`` at most: they are in a pass that is there anyway."""
        tokens = max(0, min(wanted, self.left))
        self.left -= tokens
        return tokens

    def spend(self, sequence: Sequence, wanted: int) -> int:
        """Takes as many as there are for the sequence, ``wanted`` at most."""
        tokens = max(0, min(wanted, self.left))
        if sequence.pool is not None:
            tokens = min(tokens, self.pooled)
            self.pooled = self.pooled - tokens if self.alone or not tokens else 0
        elif tokens < wanted:
            tokens = self._cut(tokens, wanted)
        self.begun = self.begun or tokens > 0
        self.left -= tokens
        return tokens

    def _cut(self, tokens: int, wanted: int) -> int:
        """How many of ``wanted`` tokens to take, where there is room for ``tokens``."""
        worthwhile = min(tokens, wanted - self.least)
        if worthwhile >= self.least:
            return worthwhile
        if self.begun:
            self.left = 0  # or who came later would go first
            return 0
        return tokens


class Scheduler:
    """Continuous batching: sequences join and leave between any two steps.

    Sequences that wait are admitted in order of arrival. Each step has a budget of tokens: decoding rows take one
    each, then what was forced on them, the rest goes to prompts in chunks. Embeddings come in bulk: while anybody else
    is there they get a part of it (`POOLED_PART`), and as much time as the others at most. When the rows together would
    hold more than ``kv_tokens``, the sequence that arrived last gives up its row; it keeps its tokens and is prefilled
    again later.

    Args:
        runner: whose rows are scheduled.
        step_tokens: most tokens that one step computes.
        kv_tokens: most tokens that all rows may hold together.

    Raises:
        ValueError: a bound is too small for a single sequence to ever end.
    """

    def __init__(self, runner: ModelRunner, *, step_tokens: int, kv_tokens: int) -> None:
        if step_tokens < 1 or kv_tokens < runner.max_len:
            raise ValueError(f"step_tokens has to be 1 at least, and kv_tokens the model's max_len {runner.max_len}")
        self._runner = runner
        self._step_tokens = step_tokens
        self._kv_tokens = kv_tokens
        self._waiting: list[Sequence] = []  # by arrival
        self._rows: list[Sequence] = []
        self._decoding = 0
        self._sharing = Sharing()
        self.preemptions = 0

    @property
    def running(self) -> tuple[Sequence, ...]:
        """The sequences that hold a row, by row."""
        return tuple(sequence for sequence in self._rows if isinstance(sequence.state, Prefilling | Decoding))

    def sequences(self) -> Iterator[Sequence]:
        """All that run or wait."""
        yield from self.running
        yield from filter(_waits, self._waiting)

    @property
    def has_work(self) -> bool:
        """Whether planning would do something, if only free a row whose sequence has left it."""
        return bool(self._rows or self._waiting)

    def add(self, sequence: Sequence) -> None:
        """Queues a sequence by its arrival; it counts while its state is `Waiting`."""
        place = self._place(sequence)
        if sequence not in self._waiting[place : place + 1]:
            self._waiting.insert(place, sequence)

    def drop(self, sequence: Sequence) -> None:
        """Lets go of a sequence that has ended: of its place in the queue, or its row."""
        place = self._place(sequence)
        if sequence in self._waiting[place : place + 1]:
            del self._waiting[place]
        if sequence in self._rows:
            self._release(sequence)

    def _place(self, sequence: Sequence) -> int:
        return bisect_left(self._waiting, sequence.arrival, key=lambda each: each.arrival)

    def plan(self) -> Plan:
        """The next step. Admits and preempts; the sequences' states say so."""
        self._arrange_rows()
        self._make_room()
        budget = self._budget()
        share = self._forced_share(budget)
        decode = [self._decoding_chunk(row, budget, share) for row in range(self._decoding)]
        chunks = self._chunks(budget)
        if not chunks and not self._decoding:  # whoever generates waits for what embeddings hold
            budget.pooled = self._pooled_part
            chunks = self._chunks(budget)
        return Plan(tuple(decode), tuple(chunks))

    def spent(self, embeddings_s: float, others_s: float) -> None:
        """Is told how long the step took that was planned last, in seconds."""
        self._sharing.spent(embeddings_s, others_s)

    def _decoding_chunk(self, row: int, budget: Budget, share: int) -> Chunk:
        """What of a decoding row's tokens is computed; one is always in the budget, and of forced ones its share."""
        sequence, start = self._rows[row], self._runner.length(row)
        return Chunk(sequence, row, start, start + 1 + budget.force(min(sequence.known - start - 1, share)))

    def _forced_share(self, budget: Budget) -> int:
        """How many forced tokens each row may have that has any: all alike, and prompts are not kept from going on."""
        behind = sum(self._rows[row].known - self._runner.length(row) > 1 for row in range(self._decoding))
        kept = budget.least if self._waiting or len(self._rows) > self._decoding else 0
        return max(0, budget.left - kept) // max(1, behind)

    def _chunks(self, budget: Budget) -> list[Chunk]:
        """What is computed of prompts. Admits as many as there is room for."""
        prefilling = sorted(self._rows[self._decoding :], key=lambda sequence: sequence.arrival)
        chunks: list[Chunk] = []
        for sequence in prefilling:
            self._add_chunk(chunks, sequence, budget)
        while budget.left > 0 and (admitted := self._admit()):
            self._add_chunk(chunks, admitted, budget)
        return chunks

    def _arrange_rows(self) -> None:
        """Makes the rows what the states say: none for who left, those who decode in front. All moves happen here."""
        for sequence in [each for each in self._rows if not isinstance(each.state, Prefilling | Decoding)]:
            self._release(sequence)
        for row in range(self._decoding, len(self._rows)):
            if isinstance(self._rows[row].state, Decoding):
                self._swap(row, self._decoding)
                self._decoding += 1

    def take_back(self, sequence: Sequence) -> None:
        """Makes the next step compute a sequence's last token again: what it was computed for did not come about."""
        self._runner.truncate(self._rows.index(sequence), sequence.known - 1)

    def _budget(self) -> Budget:
        left, least = self._step_tokens - self._decoding, self._step_tokens // LEAST_PART
        if all(sequence.pool is not None for sequence in self.sequences()):
            self._sharing.begin_anew()
            return Budget(left, pooled=left, alone=True, least=least)
        pooled = self._pooled_part if self._sharing.is_embeddings_turn else 0
        return Budget(left, pooled=pooled, alone=False, least=least)

    @property
    def _pooled_part(self) -> int:
        return max(1, self._step_tokens // POOLED_PART)

    def _add_chunk(self, chunks: list[Chunk], sequence: Sequence, budget: Budget) -> None:
        """Adds as much of the sequence as the budget allows."""
        assert isinstance(sequence.state, Prefilling)
        start = sequence.state.done
        end = start + budget.spend(sequence, sequence.known - start)
        if end > start:
            chunks.append(Chunk(sequence, self._rows.index(sequence), start, end))

    def _admit(self) -> Sequence | None:
        """Gives the sequence that has waited longest a row, if there is one and its tokens fit."""
        sequence = self._longest_waiting()
        if sequence is None or len(self._rows) == self._runner.max_rows:
            return None
        if self._held() + sequence.known > self._kv_tokens:
            return None
        # In this order an exception in between leaves it waiting, or running, but never neither.
        self._rows.append(sequence)
        sequence.move(Prefilling())
        del self._waiting[0]
        return sequence

    def _longest_waiting(self) -> Sequence | None:
        while self._waiting and not _waits(self._waiting[0]):
            del self._waiting[0]
        return self._waiting[0] if self._waiting else None

    def _held(self) -> int:
        """Tokens that the rows hold once what is running has been computed."""
        return sum(sequence.known for sequence in self._rows)

    def _make_room(self) -> None:
        while self._held() > self._kv_tokens:
            last = max(self._rows, key=lambda sequence: sequence.arrival)
            self.preemptions += 1
            self.add(last)
            last.move(Waiting())
            self._release(last)

    def _release(self, sequence: Sequence) -> None:
        row, last = self._rows.index(sequence), len(self._rows) - 1
        if row < self._decoding:
            self._swap(row, self._decoding - 1)
            self._decoding -= 1
            row = self._decoding
        self._swap(row, last)
        self._runner.truncate(last, 0)
        self._rows.pop()

    def _swap(self, a: int, b: int) -> None:
        if a != b:
            self._runner.swap(a, b)
            self._rows[a], self._rows[b] = self._rows[b], self._rows[a]


def _waits(sequence: Sequence) -> bool:
    return isinstance(sequence.state, Waiting)
