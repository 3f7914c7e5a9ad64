"""A plugin for processes that can be killed: its matchers do to their process what the text so far says.

It compiles choices of ASCII letters; a choice with an option ``hang`` or ``segfault`` never becomes a grammar. It
imports little, because every process has to.
"""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence

import attrs

from structout import BackendInfo, Choice, ErrorKind, GrammarError, GrammarFailure, Result, Status, hookimpl
from structout.backend import BitmaskRow, CompiledGrammar, Matcher
from structout.spec import GrammarSpec
from tests.fakes import TrieBackend, TrieMatcher

NAME = "tests.adapter.remote_plugin:Plugin"
OPTIONS = ("xhang.", "xsegfault.", "xfine.", "xfellow.")


def _refuse() -> None:
    raise RuntimeError("secret internals")


def _give_up() -> None:
    raise GrammarFailure(GrammarError(kind=ErrorKind.TOO_COMPLEX, message="there is too much of it"))


DEEDS: Mapping[str, Callable[[], object]] = {
    "hang": lambda: time.sleep(3600),
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "raise": _refuse,
    "give up": _give_up,
}


def _do(deed: str) -> None:
    DEEDS.get(deed, lambda: None)()


@attrs.define(eq=False)
class DoingMatcher(TrieMatcher):
    """Does what the text so far says, but for its first letter, and fills its row afterwards."""

    def fill(self, row: BitmaskRow) -> Status:
        _do(self.text[1:].decode())
        return TrieMatcher.fill(self, row)


@attrs.frozen(eq=False)
class DoingBackend(TrieBackend):
    """Does what its options say, and compiles them afterwards."""

    matcher: Callable[..., Matcher] = DoingMatcher

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        assert isinstance(spec, Choice)
        for option in spec.options:
            _do(option)
        return TrieBackend.compile(self, spec)


class Plugin:
    @hookimpl
    def structout_register_backends(self) -> Sequence[BackendInfo]:
        return [BackendInfo(id="doing", create=DoingBackend, spec_kinds=frozenset({"choice"}))]
