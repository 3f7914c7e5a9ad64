"""JSON Schema: where its subschemas are, what a backend drops of it, and whether a text is valid under it."""

from structout.schema.references import reachable
from structout.schema.scan import (
    Condition,
    Rule,
    all_of,
    always,
    below_root,
    beside,
    findings,
    refusal,
    scan,
    type_allows,
    untyped,
    value_is,
    value_matches,
    without,
)
from structout.schema.validation import ReferenceValidator, check_schema, reference_validator
from structout.schema.walk import Node, Schema, walk

__all__ = [
    "Condition",
    "Node",
    "ReferenceValidator",
    "Rule",
    "Schema",
    "all_of",
    "always",
    "below_root",
    "beside",
    "check_schema",
    "findings",
    "reachable",
    "reference_validator",
    "refusal",
    "scan",
    "type_allows",
    "untyped",
    "value_is",
    "value_matches",
    "walk",
    "without",
]
