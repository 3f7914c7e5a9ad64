"""Looks for faults of grammar backends: cases made by Hypothesis strategies or by seeds, and the laws they are held to.

In a test suite of your own::

    @given(json_cases())
    def test_my_backend(case):
        report = examine_in(child, case, Law)
        assert not report.violations

where ``child`` is ``Child(Target("my_backend"))``, a process that the backend may take down with it.
"""

from structout.fuzz.campaign import Budget, Campaign
from structout.fuzz.case import Case, Text
from structout.fuzz.child import Child, ChildError
from structout.fuzz.examine import Report
from structout.fuzz.faults import Fault, FaultFolder
from structout.fuzz.instances import instances
from structout.fuzz.json_cases import cases_for, json_cases
from structout.fuzz.laboratory import examine_in
from structout.fuzz.languages import choice_cases, ebnf_cases, regex_cases, tag_cases
from structout.fuzz.law import Law, Violation
from structout.fuzz.schemas import keyword_schemas, schemas
from structout.fuzz.target import Target
from structout.fuzz.tokenizations import tokenizations

__all__ = [
    "Budget",
    "Campaign",
    "Case",
    "Child",
    "ChildError",
    "Fault",
    "FaultFolder",
    "Law",
    "Report",
    "Target",
    "Text",
    "Violation",
    "cases_for",
    "choice_cases",
    "ebnf_cases",
    "examine_in",
    "instances",
    "json_cases",
    "keyword_schemas",
    "regex_cases",
    "schemas",
    "tag_cases",
    "tokenizations",
]
