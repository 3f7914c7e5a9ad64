"""Which grammars get processes of their own: those that the sandbox found slow, to fill or to compile."""

import threading
import weakref
from collections.abc import Callable

from engine_adapter.filling.risky import RiskyGrammars
from structout.compile.failures import SHUT_DOWN
from structout.compile.sandbox import Tried
from structout.errors import GrammarError
from structout.grammar import Grammar
from structout.processes import Stop
from structout.result import Err, Ok, Result
from structout.spec import GrammarSpec


class Isolation:
    """`RiskyGrammars` of every backend, each made when it is first needed. Safe to use from any thread.

    Args:
        make: makes the `RiskyGrammars` of the backend with an id: what they are made with is set there.
        slow_fill_s: a grammar whose slowest fill took longer when it was tried gets a process; 0 for every grammar
            that had to be tried.
        slow_compile_s: so does one that took longer to compile, if there is room and it has to be compiled again; else
            this process does that.
    """

    def __init__(
        self, make: Callable[[str], RiskyGrammars], *, slow_fill_s: float = 0.005, slow_compile_s: float = 0.1
    ) -> None:
        self._make = make
        self._slow_fill_s = slow_fill_s
        self._slow_compile_s = slow_compile_s
        self._lock = threading.Lock()
        self._closed = False
        self._made: dict[str, RiskyGrammars] = {}
        self._in_use: weakref.WeakValueDictionary[tuple[str, str], Grammar] = weakref.WeakValueDictionary()

    def compile(self, spec: GrammarSpec, tried: Tried, stop: Stop) -> Result[Grammar, GrammarError] | None:
        """A spec that came through the sandbox, compiled in a process of its own; None if it may be compiled here.

        A grammar's process lives as long as the grammar, so caches should not keep such a grammar. While it is in use,
        who asks for the same gets the same.

        Args:
            spec: what was tried.
            tried: what was measured, and by which backend.
            stop: ends this call with CANCELLED when it is set.
        """
        is_slow_to_fill = tried.slowest_fill_s > self._slow_fill_s
        is_slow_to_get = tried.compile_s > self._slow_compile_s and tried.data is None
        if not (is_slow_to_fill or is_slow_to_get):
            return None
        key = tried.backend, spec.key
        if (in_use := self._in_use.get(key)) is not None:
            return Ok(in_use)
        if (grammars := self._grammars(tried.backend)) is None:
            return Err(SHUT_DOWN)
        if not (is_slow_to_fill or grammars.has_room):
            return None
        result = grammars.compile(spec, stop=stop)
        if isinstance(result, Ok):
            self._in_use[key] = result.value
        return result

    def pids(self) -> tuple[int, ...]:
        """Of the processes that hold a grammar."""
        return tuple(pid for made in list(self._made.values()) for pid in made.pids())

    def close(self) -> None:
        """Kills all processes; sequences that still use one fail."""
        with self._lock:
            self._closed = True
            made, self._made = self._made, {}
        for each in made.values():
            each.close()

    def _grammars(self, backend: str) -> RiskyGrammars | None:
        """Of a backend; None once this is closed."""
        with self._lock:
            if self._closed:
                return None
            if backend not in self._made:
                self._made[backend] = self._make(backend)
            return self._made[backend]
