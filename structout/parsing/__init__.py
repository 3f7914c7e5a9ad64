"""What clients send, turned into specs: every dialect, every mistake an ``Err`` at once.

Nothing here raises on what a client sent, however it is shaped, and nothing is dropped silently: an error says where
(``pointer`` into the request, ``offset`` into a text), what is wrong and what to do, and shows nothing of the inside.

The checked constructors (`json_schema`, `regex`, ...) are for a single value, `parse_request` is for a whole request,
the other ``parse_`` functions for one field of one. `placed_request` and `placed_backend` also say where in the request
it stands, for errors that come later and point into the spec.
"""

from structout.parsing.constructors import choice, ebnf, grammar, json_object, json_schema, lark, regex
from structout.parsing.limits import SpecLimits
from structout.parsing.loose import parse_structured_output
from structout.parsing.openai import parse_response_format
from structout.parsing.places import Place, Placed
from structout.parsing.request import parse_request, placed_backend, placed_request, requested_backend
from structout.parsing.tags import structural_tag
from structout.parsing.tools import parse_tools
from structout.parsing.vllm import parse_structured_outputs

__all__ = [
    "Place",
    "Placed",
    "SpecLimits",
    "choice",
    "ebnf",
    "grammar",
    "json_object",
    "json_schema",
    "lark",
    "parse_request",
    "parse_response_format",
    "parse_structured_output",
    "parse_structured_outputs",
    "parse_tools",
    "placed_backend",
    "placed_request",
    "regex",
    "requested_backend",
    "structural_tag",
]
