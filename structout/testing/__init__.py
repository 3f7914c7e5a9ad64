"""The conformance kit: what a grammar backend has to keep, as checks for its own test suite."""

from structout.fuzz.known import KnownFault, KnownFaults
from structout.testing.checks import Check, ConformanceError, KnownFaultCheck, conformance_checks
from structout.testing.levels import LAWS, PROTECTS, Level

__all__ = [
    "LAWS",
    "PROTECTS",
    "Check",
    "ConformanceError",
    "KnownFault",
    "KnownFaultCheck",
    "KnownFaults",
    "Level",
    "conformance_checks",
]
