"""A plugin for worker processes: backends that do to their process what the first option of a choice says.

They compile the choice afterwards, if there is an afterwards.
"""

import contextlib
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Never, TextIO

import attrs

from structout import BackendInfo, Choice, GrammarError, GrammarSpec, Ok, Result, Status, hookimpl
from structout.backend import Backend, BitmaskRow, CompiledGrammar
from structout.vocabulary import Vocabulary
from tests.fakes import TrieGrammar, TrieMatcher

SAID: Final = "what native code prints"
MARK: Final = "mark:"
"""Begins an option that names a file, or a FIFO, to which the backend writes its process id, a line for each time that
it is asked. It stays open as long as the deed takes."""


def mark(path: Path) -> str:
    return MARK + str(path)


def _say(text: bytes, times: int = 1) -> None:
    """Writes to every pipe, as native code does that has lost its mind."""
    for descriptor in range(1, 64):
        with contextlib.suppress(OSError):
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                for _ in range(times):
                    os.write(descriptor, text)


def _segfault() -> None:
    os.write(2, SAID.encode())
    os.kill(os.getpid(), signal.SIGSEGV)


def _spin() -> Never:
    while True:
        pass


def _give_up(said: bytes) -> Never:
    """Ends as C++ and Rust do when an allocation fails."""
    os.write(2, said)
    os.abort()


def _leave_a_child(marks: Sequence[TextIO]) -> Never:
    descriptors = [each.fileno() for each in marks]
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], pass_fds=descriptors)
    os.abort()


def _be_killed_the_first_time(marks: Sequence[TextIO]) -> None:
    if len(Path(marks[0].name).read_text().splitlines()) == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def _interrupt() -> None:
    """What Ctrl-C does, also where the shell lets its background jobs ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)


DEEDS: Final[Mapping[str, Callable[[Sequence[TextIO]], object]]] = {
    "segfault": lambda _: _segfault(),
    "abort": lambda _: os.abort(),
    "exit quietly": lambda _: os._exit(0),
    "hang": lambda _: time.sleep(3600),
    "spin": lambda _: _spin(),
    "allocate": lambda _: bytearray(8 << 30),
    "allocate in C++": lambda _: _give_up(b"terminate called after throwing an instance of 'std::bad_alloc'"),
    "allocate in Rust": lambda _: _give_up(b"memory allocation of 8589934592 bytes failed"),
    "raise SystemExit": lambda _: sys.exit("not me"),
    "raise KeyboardInterrupt": lambda _: _interrupt(),
    "print": lambda _: os.write(1, f"{SAID}\n".encode()),
    "read": lambda _: os.read(0, 100),
    "claim": lambda _: _say(b'{"job": 0, "tried": {"backend": "hazards"}, "is_last": false}\n'),
    "nothing": lambda _: None,
    "babble": lambda _: _say(b"\x00\xff{]\n" * 8),
    "babble without end": lambda _: _say(b"x" * 4096, 1024),
    "flood standard error": lambda _: [os.write(2, b"x" * (1 << 20)) for _ in range(4)],
    "abort beside a child": _leave_a_child,
    "be killed": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "be killed the first time": _be_killed_the_first_time,
}


@attrs.define(eq=False)
class SlowMatcher(TrieMatcher):
    """Every fill takes 0.2 seconds of work."""

    def fill(self, row: BitmaskRow) -> Status:
        until = time.process_time() + 0.2
        while time.process_time() < until:
            pass
        return TrieMatcher.fill(self, row)


@attrs.define(eq=False)
class FailingMatcher(TrieMatcher):
    """Every fill fails."""

    def fill(self, row: BitmaskRow) -> Status:
        raise RuntimeError("the matcher gives up")


MATCHERS: Final[Mapping[str, type[TrieMatcher]]] = {"slow fills": SlowMatcher, "failing fills": FailingMatcher}
"""By the first option."""


SERIALIZE: Final = "serialize: "
DESERIALIZE: Final = "deserialize: "
"""Begin an option whose deed is done when its grammar is written, or read again."""


@attrs.frozen(eq=False)
class WrittenGrammar(TrieGrammar):
    """What is written is the deed that is done when it is read."""

    deed: str = attrs.field(kw_only=True)

    def serialize(self) -> bytes:
        if self.deed.startswith(SERIALIZE):
            DEEDS[self.deed.removeprefix(SERIALIZE)](())
        return self.deed.encode()


@attrs.frozen(eq=False)
class Hazards:
    """Does the deed, then compiles."""

    vocabulary: Vocabulary

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        assert isinstance(spec, Choice)
        deed, *rest = spec.options
        with contextlib.ExitStack() as stack:
            marks = [stack.enter_context(_marked(each.removeprefix(MARK))) for each in rest if each.startswith(MARK)]
            if deed in DEEDS:
                DEEDS[deed](marks)
        options = frozenset(option.encode() for option in spec.options)
        if deed.startswith((SERIALIZE, DESERIALIZE)):
            return Ok(WrittenGrammar(options, self.vocabulary, deed=deed))
        return Ok(TrieGrammar(options, self.vocabulary, MATCHERS.get(deed, TrieMatcher)))

    def deserialize(self, data: bytes) -> Result[CompiledGrammar, GrammarError]:
        deed = data.decode()
        if deed.startswith(DESERIALIZE):
            DEEDS[deed.removeprefix(DESERIALIZE)](())
        return Ok(WrittenGrammar(frozenset([data]), self.vocabulary, deed=deed))


def _marked(path: str) -> TextIO:
    file = Path(path).open("a")  # noqa: SIM115 (closed by whoever asked for it)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


def _info(id: str, create: Callable[[Vocabulary], Backend] = Hazards) -> BackendInfo:
    return BackendInfo(id=id, create=create, spec_kinds={"choice"}, by_name_only=True)


def _crash(_vocabulary: Vocabulary) -> Backend:
    os.abort()


def _raise(_vocabulary: Vocabulary) -> Backend:
    raise ImportError("libgrammar.so is missing")


class HazardsPlugin:
    """Registers the backend ``hazards``, and two that cannot be started."""

    @hookimpl
    def structout_register_backends(self) -> list[BackendInfo]:
        return [_info("hazards"), _info("crashes_at_start", _crash), _info("raises_at_start", _raise)]


PLUGIN: Final = f"{__name__}:HazardsPlugin"
