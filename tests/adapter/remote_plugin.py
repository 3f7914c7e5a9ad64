"""A plugin for processes that can be killed: its matchers do to their process what the text so far says.

It compiles choices of ASCII letters; a choice with an option ``hang`` or ``segfault`` never becomes a grammar. It
imports little, because every process has to.
"""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence

import attrs
import numpy as np

from structout import (
    BackendInfo,
    Choice,
    Err,
    ErrorKind,
    Finding,
    GrammarError,
    Ok,
    Result,
    Status,
    Vocabulary,
    hookimpl,
)
from structout.backend import Backend, BitmaskRow, CompiledGrammar, Matcher
from structout.spec import GrammarSpec

NAME = "tests.adapter.remote_plugin:Plugin"
OPTIONS = ("xhang.", "xsegfault.", "xfine.", "xfellow.")


def _refuse() -> None:
    raise RuntimeError("secret internals")


DEEDS: Mapping[str, Callable[[], object]] = {
    "hang": lambda: time.sleep(3600),
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "raise": _refuse,
}


def _do(deed: str) -> None:
    DEEDS.get(deed, lambda: None)()


@attrs.define(eq=False)
class DoingMatcher:
    """Matches one of several texts; has none of the optional abilities."""

    options: Sequence[str]
    vocabulary: Vocabulary
    stops: frozenset[int]
    text: str = ""
    is_terminated: bool = False

    def _fits(self, token: int) -> bool:
        if token in self.stops:
            return self.is_accepting
        piece = self.vocabulary.token(token).decode("latin-1")
        return bool(piece) and any(option.startswith(self.text + piece) for option in self.options)

    def fill(self, row: BitmaskRow) -> Status:
        _do(self.text[1:])
        fitting = np.zeros(32 * len(row), np.uint8)
        fitting[[token for token in range(self.vocabulary.size) if self._fits(token)]] = 1
        row[:] = np.packbits(fitting, bitorder="little").view(np.int32)
        return Status.OK

    def accept(self, token: int) -> Status:
        if not self._fits(token):
            return Status.REJECTED
        self.is_terminated = token in self.stops
        self.text += self.vocabulary.token(token).decode("latin-1")
        return Status.OK

    @property
    def is_accepting(self) -> bool:
        return self.text in self.options


@attrs.frozen(eq=False)
class DoingGrammar:
    options: Sequence[str]
    vocabulary: Vocabulary
    unenforced: Sequence[Finding] = ()
    narrowed: Sequence[Finding] = ()

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> Matcher:
        return DoingMatcher(self.options, self.vocabulary, frozenset(stop_token_ids))


@attrs.frozen(eq=False)
class DoingBackend:
    vocabulary: Vocabulary

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        assert isinstance(spec, Choice)
        for option in spec.options:
            _do(option)
        if "refuse" in spec.options:
            return Err(GrammarError(kind=ErrorKind.UNSUPPORTED, message="the option 'refuse' is refused"))
        return Ok(DoingGrammar(spec.options, self.vocabulary))


class Plugin:
    @hookimpl
    def structout_register_backends(self) -> Sequence[BackendInfo]:
        def create(vocabulary: Vocabulary) -> Backend:
            return DoingBackend(vocabulary)

        return [BackendInfo(id="doing", create=create, spec_kinds=frozenset({"choice"}))]
