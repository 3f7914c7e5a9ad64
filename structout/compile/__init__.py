"""Compiling grammars for many requests at once: `CompileService` and the `Pending` results that it hands out, and the
`GrammarStore` that keeps some of them on disk."""

from structout.compile.jobs import PendingGrammar
from structout.compile.pending import Pending
from structout.compile.service import CompileService
from structout.compile.store import GrammarStore

__all__ = ["CompileService", "GrammarStore", "Pending", "PendingGrammar"]
