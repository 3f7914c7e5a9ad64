"""Compiling grammars for many requests at once: `CompileService` and the `Pending` results that it hands out."""

from structout.compile.jobs import PendingGrammar
from structout.compile.pending import Pending
from structout.compile.service import CompileService

__all__ = ["CompileService", "Pending", "PendingGrammar"]
