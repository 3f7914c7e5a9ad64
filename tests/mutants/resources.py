"""Faults of time and memory, and the ways to take the process along."""

import os
import signal
import threading
import time
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from structout import Err, GrammarError, GrammarSpec, JsonSchema, Result, Status
from structout.backend import Bitmask, BitmaskRow, CompiledGrammar, Matcher
from tests.mutants.wrapping import PassBackend, PassGrammar, PassMatcher

Bytes = npt.NDArray[np.uint8]

_MEBIBYTE = 1 << 20
_FOREVER_S = 3600


class LeaksMatchers(PassGrammar):
    """A list keeps a quarter of a mebibyte for every sequence that was ever started."""

    kept: ClassVar[list[Bytes]] = []

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> PassMatcher:
        self.kept.append(np.ones(_MEBIBYTE // 4, np.uint8))
        return super().start(stop_token_ids=stop_token_ids, max_rollback=max_rollback)


class LeaksGrammars(PassBackend):
    """A list keeps a mebibyte for every grammar that was ever compiled."""

    kept: ClassVar[list[Bytes]] = []

    def wrapped(self, compiled: CompiledGrammar) -> CompiledGrammar:
        self.kept.append(np.ones(_MEBIBYTE, np.uint8))
        return super().wrapped(compiled)


class LeaksRows(PassMatcher):
    """A list keeps a copy of every row, 64 times, for as long as the process lives."""

    kept: ClassVar[list[BitmaskRow]] = []

    def fill(self, row: BitmaskRow) -> Status:
        status = super().fill(row)
        self.kept.append(np.tile(row, 64))
        return status


class SlowRows(PassMatcher):
    """A row takes half a second."""

    def fill(self, row: BitmaskRow) -> Status:
        time.sleep(0.5)
        return super().fill(row)


class SlowLater(PassMatcher):
    """A row takes a tenth of a second for each token after the eighth."""

    def fill(self, row: BitmaskRow) -> Status:
        time.sleep(max(0, len(self.tokens) - 8) / 10)
        return super().fill(row)


class HangsInFill(PassMatcher):
    """The row after the sixth token never comes."""

    def fill(self, row: BitmaskRow) -> Status:
        if len(self.tokens) == 6:
            time.sleep(_FOREVER_S)
        return super().fill(row)


class HangsInCompile(PassBackend):
    """Never returns from the compile of a schema with a long text."""

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        if isinstance(spec, JsonSchema) and len(spec.text) > 150:
            time.sleep(_FOREVER_S)
        return spec


class Aborts(PassMatcher):
    """Ends the process at a token outside of ASCII."""

    def accept(self, token: int) -> Status:
        if not self.vocabulary.token(token).isascii():
            os.abort()
        return super().accept(token)


class CrashesOnRef(PassBackend):
    """Ends the process on a schema with a reference."""

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        if isinstance(spec, JsonSchema) and '"$ref"' in spec.text:
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().compile(spec)


class ExitsQuietly(PassMatcher):
    """Ends the process at the tenth token as if all had gone well."""

    def accept(self, token: int) -> Status:
        if len(self.tokens) == 9:
            os._exit(0)
        return super().accept(token)


class RaisesAnExit(PassMatcher):
    """Raises SystemExit at a token of digits, if that is refused."""

    def accept(self, token: int) -> Status:
        status = super().accept(token)
        if status is Status.REJECTED and self.vocabulary.token(token).isdigit():
            raise SystemExit(0)
        return status


class HugeSequences(PassGrammar):
    """Every sequence holds a gibibyte."""

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> PassMatcher:
        started = super().start(stop_token_ids=stop_token_ids, max_rollback=max_rollback)
        vars(started)["held"] = np.ones(1024 * _MEBIBYTE, np.uint8)
        return started


class HugeGrammars(PassBackend):
    """A compiled grammar holds two gibibytes."""

    def wrapped(self, compiled: CompiledGrammar) -> CompiledGrammar:
        grammar = super().wrapped(compiled)
        vars(grammar)["held"] = np.ones(2048 * _MEBIBYTE, np.uint8)
        return grammar


class LeaksForks(PassMatcher):
    """A list keeps 64 kibibytes for every fork."""

    base = "llguidance"
    kept: ClassVar[list[bytes]] = []

    def fork(self) -> Self:
        self.kept.append(bytes(65536))
        return super().fork()


class LeaksRefusedTokens(PassMatcher):
    """A list keeps 64 kibibytes for every refused token."""

    base = "llguidance"
    kept: ClassVar[list[bytes]] = []

    def accept(self, token: int) -> Status:
        status = super().accept(token)
        if status is Status.REJECTED:
            self.kept.append(bytes(65536))
        return status


class LeaksRefusals(PassBackend):
    """A list keeps a mebibyte for every spec that was refused."""

    kept: ClassVar[list[Bytes]] = []

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        result = super().compile(spec)
        if isinstance(result, Err):
            self.kept.append(np.ones(_MEBIBYTE, np.uint8))
        return result


class LeaksBatches(PassBackend):
    """A list keeps a copy of every bitmask that was filled in one call, 64 times."""

    kept: ClassVar[list[Bitmask]] = []

    def fill_batch(self, matchers: Sequence[Matcher], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        self.kept.append(np.tile(bitmask, 64))
        return super().fill_batch(matchers, bitmask, rows)


class AbortsWhenDeep(PassMatcher):
    """Ends the process where arrays are nested more than 64 deep, as what recurses does."""

    base = "llguidance"

    def accept(self, token: int) -> Status:
        status = super().accept(token)
        if self.text.count(b"[") - self.text.count(b"]") > 64:
            os.abort()
        return status


class CountsInAByte(PassMatcher):
    """Raises at the 256th token."""

    base = "llguidance"

    def accept(self, token: int) -> Status:
        if len(self.tokens) == 255:
            raise OverflowError("256 does not fit into a byte")
        return super().accept(token)


class SlowFarOut(PassMatcher):
    """A row takes a tenth of a second from the 170th token on."""

    base = "llguidance"

    def fill(self, row: BitmaskRow) -> Status:
        if len(self.tokens) >= 170:
            time.sleep(0.1)
        return super().fill(row)


class LeaksLongRollbacks(PassMatcher):
    """A list keeps 64 kibibytes for every rollback of more than one token."""

    base = "llguidance"
    kept: ClassVar[list[bytes]] = []

    def rollback(self, tokens: int) -> Status:
        if tokens > 1:
            self.kept.append(bytes(65536))
        return super().rollback(tokens)


class LeaksEnds(PassMatcher):
    """A list keeps every sequence that has ended."""

    base = "llguidance"
    kept: ClassVar[list[PassMatcher]] = []

    def accept(self, token: int) -> Status:
        status = super().accept(token)
        if self.ended and status is Status.OK:
            self.kept.append(self)
        return status


class LeaksDescriptors(PassBackend):
    """Every compile leaves a file open."""

    def wrapped(self, compiled: CompiledGrammar) -> CompiledGrammar:
        os.open(os.devnull, os.O_RDONLY)
        return super().wrapped(compiled)


class LeaksThreads(PassBackend):
    """Every compile leaves a thread behind that waits for ever."""

    def wrapped(self, compiled: CompiledGrammar) -> CompiledGrammar:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        return super().wrapped(compiled)
