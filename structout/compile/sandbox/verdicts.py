"""What to tell the caller whose spec ended a worker.

Too much time is TIMED_OUT in both its forms, and no cache keeps that. Whose fault it is, the processor decides: the
caller's over the limit of processor time, and at the deadline if the worker has computed for at least half of the time
until then, so that sending the spec again would not help; else, when it slept or waited for a processor, the service's.
"""

import signal
from typing import Final

import attrs

from structout.compile.failures import CANCELLED
from structout.compile.sandbox.limits import Limits, says_out_of_memory
from structout.errors import ErrorKind, Fault, GrammarError
from structout.processes import Cause, Ended
from structout.spec import GrammarSpec

ATTEMPTS: Final = 3
"""How often something is asked if somebody else kills the process that does it, before the spec is blamed for it."""
_SIMPLER: Final = "make it simpler"
_COMPUTING: Final = 0.5
"""The part of the time for which a process has to have computed to be out of time through its own work."""
_FROM_OUTSIDE: Final = frozenset({-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGINT})


def was_killed_from_outside(ended: Ended) -> bool:
    """Whether somebody else ended the process, so that its job says nothing of the spec."""
    return ended.cause is Cause.EXITED and ended.status in _FROM_OUTSIDE


def was_computing(ended: Ended, seconds: float) -> bool:
    """Whether the process was at work for most of the seconds that it had, instead of asleep or without a processor."""
    return ended.cpu_s is not None and ended.cpu_s >= _COMPUTING * seconds


def verdict(ended: Ended, spec: GrammarSpec, limits: Limits, wall_s: float) -> GrammarError:
    """What it says of a spec that the process that tried it has ended, under these limits and within ``wall_s``."""
    if ended.cause is Cause.STOPPED:
        return CANCELLED
    return attrs.evolve(_verdict(ended, spec, limits, wall_s), detail=ended.describe())


def _verdict(ended: Ended, spec: GrammarSpec, limits: Limits, wall_s: float) -> GrammarError:
    if ended.cause is Cause.DEADLINE:
        return _out_of_time(spec, wall_s, was_computing=was_computing(ended, wall_s))
    if ended.cause is Cause.GARBAGE:
        return _failure(f"the process that tried this {spec.kind} gave no valid answer")
    if ended.status == -signal.SIGXCPU:
        return _over_its_budget(spec, limits)
    if says_out_of_memory(ended.stderr):
        return out_of_memory(spec, limits)
    how = "was killed again and again" if was_killed_from_outside(ended) else "crashed"
    return _failure(f"the process that tried this {spec.kind} {how}")


def _out_of_time(spec: GrammarSpec, wall_s: float, *, was_computing: bool) -> GrammarError:
    return GrammarError(
        kind=ErrorKind.TIMED_OUT,
        fault=Fault.CALLER if was_computing else Fault.SERVICE,
        message=f"this {spec.kind} could not be compiled and tried within {wall_s:.3g} s",
        hint=_SIMPLER if was_computing else f"send it again, or {_SIMPLER}",
    )


def no_time_left(spec: GrammarSpec) -> GrammarError:
    """For a spec whose time was over before a process was free for it."""
    message = f"no process was free to try this {spec.kind} in time"
    return GrammarError(kind=ErrorKind.TIMED_OUT, fault=Fault.SERVICE, message=message, hint="send it again later")


def _over_its_budget(spec: GrammarSpec, limits: Limits) -> GrammarError:
    message = f"compiling and trying this {spec.kind} takes more than {limits.cpu_s:g} s of processor time"
    return GrammarError(kind=ErrorKind.TIMED_OUT, fault=Fault.CALLER, message=message, hint=_SIMPLER)


def out_of_memory(spec: GrammarSpec, limits: Limits) -> GrammarError:
    mebibytes = limits.memory_bytes / (1 << 20)
    message = f"compiling and trying this {spec.kind} takes more than {mebibytes:g} MiB of memory"
    return GrammarError(kind=ErrorKind.TOO_COMPLEX, message=message, hint=_SIMPLER)


def _failure(message: str) -> GrammarError:
    return GrammarError(kind=ErrorKind.BACKEND_FAILURE, message=message)
