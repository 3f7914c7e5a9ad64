"""The fields that carry a constraint, of all dialects: the one place where their names are listed.

Whatever is not in these tables and resembles nothing in them is none of parsing's business.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from structout.parsing.constructors import choice, ebnf, grammar, json_object, json_schema, lark, regex
from structout.parsing.openai import schema_or_wrapped
from structout.parsing.places import Reader, as_it_stands
from structout.parsing.tags import placed_tag
from structout.spec import GrammarSpec

ReaderTable: TypeAlias = Mapping[str, Reader[GrammarSpec]]

STRUCTURED_OUTPUTS: Final[ReaderTable] = MappingProxyType(
    {
        "json": as_it_stands(json_schema),
        "regex": as_it_stands(regex),
        "choice": as_it_stands(choice),
        "grammar": as_it_stands(grammar),
        "json_object": as_it_stands(json_object),
        "structural_tag": placed_tag,
    }
)
"""What vLLM's ``structured_outputs`` may constrain with."""

STRUCTURED_OUTPUTS_OPTIONS: Final = (
    "enforcement",
    "backend",
    "disable_any_whitespace",
    "whitespace_pattern",
    "disable_additional_properties",
)
"""What else ``structured_outputs`` may say. The first two are structout's own."""

STRUCTURED_OUTPUT_TYPES: Final[Mapping[str, tuple[Reader[GrammarSpec], tuple[str, ...]]]] = MappingProxyType(
    {
        "json": (as_it_stands(json_schema), ("schema",)),
        "regex": (as_it_stands(regex), ("pattern", "regex")),
        "choice": (as_it_stands(choice), ("choices", "choice")),
        "ebnf": (as_it_stands(ebnf), ("grammar",)),
        "lark": (as_it_stands(lark), ("grammar",)),
        "grammar": (as_it_stands(grammar), ("grammar",)),
    }
)
"""Types of a loose ``structured_output`` beyond those of a response format, with the names their value goes by."""

WHOLE_FIELDS: Final[ReaderTable] = MappingProxyType(
    {
        "json_schema": schema_or_wrapped,
        "regex": as_it_stands(regex),
        "ebnf": as_it_stands(ebnf),
        "structural_tag": placed_tag,
        "grammar": as_it_stands(grammar),
        "guided_json": as_it_stands(json_schema),
        "guided_regex": as_it_stands(regex),
        "guided_choice": as_it_stands(choice),
        "guided_grammar": as_it_stands(grammar),
    }
)
"""Top-level fields whose value is the constraint: SGLang's four, llama.cpp's ``grammar``, vLLM's before 0.12."""

OBJECT_FIELDS: Final = ("response_format", "structured_outputs", "structured_output", "tool_choice")
"""Top-level fields whose value says which kind of constraint it is, if any."""

OPTION_FIELDS: Final = ("guided_decoding_backend", "guided_whitespace_pattern")
"""Top-level fields that go with a constraint in another field."""

CARRIERS: Final = ("sampling_params", "extra_body")
"""Top-level objects whose members count as top-level fields: SGLang's native request, and what raw HTTP clients copy
from examples for OpenAI's Python client."""

KNOWN_FIELDS: Final = (*OBJECT_FIELDS, *WHOLE_FIELDS, *OPTION_FIELDS)
