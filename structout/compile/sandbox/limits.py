"""What one job may use, and how the process that does it is held to that.

Only soft limits are set: they hold hostile specs, not hostile plugins.
"""

import math
import resource
from typing import Final

import attrs

from structout.processes.usage import address_space

_OUT_OF_MEMORY: Final = ("MemoryError", "bad_alloc", "memory allocation of", "Cannot allocate memory")


@attrs.frozen
class Limits:
    """What trying one grammar may use.

    Attributes:
        wall_s: seconds from question to answer.
        cpu_s: seconds of processor time, of all threads together; the system counts whole ones.
        memory_bytes: address space beyond what the process has when its backends are loaded.
    """

    wall_s: float = attrs.field(default=10.0, validator=attrs.validators.gt(0))
    cpu_s: float = attrs.field(default=8.0, validator=attrs.validators.gt(0))
    memory_bytes: int = attrs.field(default=1 << 30, validator=attrs.validators.gt(0))


def limit_cpu(cpu_s: float) -> None:
    """Ends this process, by SIGXCPU, once it has used ``cpu_s`` seconds of processor time from now on."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _set_soft(resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime + cpu_s))


def limit_memory(memory_bytes: int) -> None:
    """Makes allocations fail that take more than ``memory_bytes`` of address space beyond what is taken now."""
    if (taken := address_space()) is not None:
        _set_soft(resource.RLIMIT_AS, taken + memory_bytes)


def lift_memory_limit() -> None:
    """Until the next `limit_memory`: loading a library takes address space that no spec is to blame for."""
    _set_soft(resource.RLIMIT_AS, resource.RLIM_INFINITY)


def _set_soft(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY and (value == resource.RLIM_INFINITY or value > hard):
        value = hard
    resource.setrlimit(which, (value, hard))


def says_out_of_memory(text: str | None) -> bool:
    """Whether a message is one that Python, C++ or Rust give when an allocation fails."""
    return text is not None and any(sign in text for sign in _OUT_OF_MEMORY)
