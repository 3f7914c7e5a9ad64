"""Structured output for LLM serving: grammar backends behind one narrow waist.

Importing this package loads no backend, no torch and no engine.
"""

from structout.backend import API_VERSION, BackendInfo, Finding, Status
from structout.errors import ErrorKind, Fault, GrammarError, GrammarFailure
from structout.hookspecs import hookimpl
from structout.result import Err, Ok, Result
from structout.spec import (
    Choice,
    Ebnf,
    GrammarSpec,
    JsonObject,
    JsonSchema,
    Lark,
    Policy,
    Regex,
    Serialization,
    StructuralTag,
)
from structout.vocabulary import TokenKind, Vocabulary, VocabularyError

__all__ = [
    "API_VERSION",
    "BackendInfo",
    "Choice",
    "Ebnf",
    "Err",
    "ErrorKind",
    "Fault",
    "Finding",
    "GrammarError",
    "GrammarFailure",
    "GrammarSpec",
    "JsonObject",
    "JsonSchema",
    "Lark",
    "Ok",
    "Policy",
    "Regex",
    "Result",
    "Serialization",
    "Status",
    "StructuralTag",
    "TokenKind",
    "Vocabulary",
    "VocabularyError",
    "hookimpl",
]
