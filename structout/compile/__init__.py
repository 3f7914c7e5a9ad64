"""Compiling grammars for many requests at once: `CompileService` and the `Pending` results that it hands out."""

from structout.compile.pending import Pending
from structout.compile.service import CompileService, PendingGrammar

__all__ = ["CompileService", "Pending", "PendingGrammar"]
