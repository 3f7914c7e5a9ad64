"""What to tell the caller whose spec ended a worker."""

import signal
from typing import Final

import attrs

from structout.compile.sandbox.limits import Limits, says_out_of_memory
from structout.errors import ErrorKind, Fault, GrammarError
from structout.processes import Cause, Ended
from structout.spec import GrammarSpec

CANCELLED: Final = GrammarError(kind=ErrorKind.CANCELLED, message="the request was cancelled")
SHUT_DOWN: Final = GrammarError(kind=ErrorKind.CANCELLED, message="the service was shut down")
_SIMPLER: Final = "make it simpler"
_FROM_OUTSIDE: Final = frozenset({-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGINT})


def was_killed_from_outside(ended: Ended) -> bool:
    """Whether somebody else ended the process, so that its job says nothing of the spec."""
    return ended.cause is Cause.EXITED and ended.status in _FROM_OUTSIDE


def verdict(ended: Ended, spec: GrammarSpec, limits: Limits, wall_s: float) -> GrammarError:
    """What it says of a spec that the process that tried it has ended, under these limits and within ``wall_s``."""
    if ended.cause is Cause.STOPPED:
        return CANCELLED
    return attrs.evolve(_verdict(ended, spec, limits, wall_s), detail=ended.describe())


def _verdict(ended: Ended, spec: GrammarSpec, limits: Limits, wall_s: float) -> GrammarError:
    if ended.cause is Cause.DEADLINE:
        return _out_of_time(spec, wall_s)
    if ended.cause is Cause.GARBAGE:
        return _failure(f"the process that tried this {spec.kind} gave no valid answer")
    if ended.status == -signal.SIGXCPU:
        return _over_its_budget(spec, limits)
    if says_out_of_memory(ended.stderr):
        return out_of_memory(spec, limits)
    how = "was killed again and again" if was_killed_from_outside(ended) else "crashed"
    return _failure(f"the process that tried this {spec.kind} {how}")


def _out_of_time(spec: GrammarSpec, wall_s: float) -> GrammarError:
    return GrammarError(
        kind=ErrorKind.TIMED_OUT,
        message=f"this {spec.kind} could not be compiled and tried within {wall_s:g} s",
        hint=f"send it again, or {_SIMPLER}",
    )


def _over_its_budget(spec: GrammarSpec, limits: Limits) -> GrammarError:
    message = f"compiling and trying this {spec.kind} takes more than {limits.cpu_s:g} s of processor time"
    return GrammarError(kind=ErrorKind.TIMED_OUT, fault=Fault.CALLER, message=message, hint=_SIMPLER)


def out_of_memory(spec: GrammarSpec, limits: Limits) -> GrammarError:
    mebibytes = limits.memory_bytes / (1 << 20)
    message = f"compiling and trying this {spec.kind} takes more than {mebibytes:g} MiB of memory"
    return GrammarError(kind=ErrorKind.TOO_COMPLEX, message=message, hint=_SIMPLER)


def _failure(message: str) -> GrammarError:
    return GrammarError(kind=ErrorKind.BACKEND_FAILURE, message=message)
