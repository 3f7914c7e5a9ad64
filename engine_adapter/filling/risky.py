"""Where risky grammars come from: `RiskyGrammars` compiles each in a process of its own, where its matchers stay."""

import threading
import weakref
from collections.abc import Collection, Sequence
from typing import Final

import attrs

from engine_adapter.filling.host import Host, Overdue
from engine_adapter.filling.remote import RemoteGrammar
from engine_adapter.filling.spares import Spares
from structout.backend import CompiledGrammar
from structout.compile.sandbox.limits import Limits
from structout.discovery import Registry
from structout.errors import ErrorKind, Fault, GrammarError
from structout.grammar import BoundBackend, Grammar
from structout.processes import Stop
from structout.result import Err, Ok, Result
from structout.spec import GrammarSpec
from structout.vocabulary import Vocabulary

_LIMITS: Final = Limits()


class RiskyGrammars:
    """Compiles for one backend and one vocabulary. Safe to use from any thread.

    Args:
        registry: what is installed; the processes have to find the same.
        vocabulary: what to compile for.
        backend: the backend's id.
        most: how many grammars there may be at a time, each with a process; more are refused with OVERLOADED.
        limits: of compiling a grammar: seconds of the clock; and of memory, its matchers included.
        fill_s: seconds that one row may take; then its process is killed, and its sequence ends as TIMED_OUT, the
            caller's fault if the process was computing. Other sequences of that grammar are late as long.
        plugins: plugins that are not installed but passed in process, each as ``module:attribute``.
        disable: as given to `structout.discovery.discover`.
    """

    def __init__(
        self,
        registry: Registry,
        vocabulary: Vocabulary,
        backend: str,
        *,
        most: int = 8,
        limits: Limits = _LIMITS,
        fill_s: float = 0.3,
        plugins: Sequence[str] = (),
        disable: Collection[str] | None = None,
    ) -> None:
        self._registered = registry.backends[backend]
        self._vocabulary = vocabulary
        self._spares = Spares(
            registry, vocabulary, backend, plugins=plugins, disable=disable, memory_bytes=limits.memory_bytes
        )
        self._limits = limits
        self._fill_s = fill_s
        self._most = most
        self._lock = threading.Lock()
        self._hosts: weakref.WeakSet[Host] = weakref.WeakSet()

    def compile(self, spec: GrammarSpec, *, stop: Stop | None = None) -> Result[Grammar, GrammarError]:
        """Compiles a spec in a process of its own, which the grammar keeps. Never raises.

        Args:
            spec: that came through the sandbox; its process looks at it again, this one does not.
            stop: ends this call with CANCELLED when it is set, and the process.
        """
        host = Host(self._spares, spec, self._limits, self._fill_s)
        with self._lock:
            if len(self._hosts) >= self._most:
                return Err(_too_many(self._most))
            self._hosts.add(host)
        info, distribution = self._registered.info, self._registered.distribution
        compiler = _Compiler(host, self._vocabulary.bitmask_width, stop or Stop())
        match _RemoteBackend(info, distribution, self._vocabulary, compiler, None).compile_admitted(spec):
            case Ok(grammar):
                return Ok(attrs.evolve(grammar, is_risky=True))
            case Err() as refused:
                host.close()
                return refused

    @property
    def has_room(self) -> bool:
        """Whether there may be one more; not for long, where several threads compile."""
        return len(self._hosts) < self._most

    def pids(self) -> tuple[int, ...]:
        """Of the processes that hold a grammar."""
        return tuple(pid for host in list(self._hosts) if (pid := host.pid) is not None)

    def close(self) -> None:
        """Kills all processes; sequences that still use one fail."""
        for host in list(self._hosts):
            host.close()
        self._spares.close()


@attrs.frozen(eq=False)
class _Compiler:
    """Has one spec compiled in one host; see `structout.backend.Backend`."""

    host: Host
    width: int
    stop: Stop

    def compile(self, _spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        return self.host.compile(self.stop).map(
            lambda findings: RemoteGrammar(self.host, self.width, findings.unenforced, findings.narrowed)
        )


@attrs.frozen(eq=False)
class _RemoteBackend(BoundBackend):
    """Tells a matcher that was killed because it took too long from one that failed."""

    def failure(self, what: str, cause: BaseException | str) -> GrammarError:
        failed = super().failure(what, cause)
        if not isinstance(cause, Overdue):
            return failed
        fault, hint = Fault.SERVICE, "send it again, or make the grammar simpler"
        if cause.was_computing:
            fault, hint = Fault.CALLER, "make the grammar simpler"
        message = "a bitmask of this grammar took too long"
        return attrs.evolve(failed, kind=ErrorKind.TIMED_OUT, fault=fault, message=message, hint=hint)


def _too_many(most: int) -> GrammarError:
    message = f"there are {most} grammars of this risk already"
    return GrammarError(kind=ErrorKind.OVERLOADED, message=message, hint="send it again later, or make it simpler")
