"""The fields that carry a constraint, of all dialects: the one place where their names are listed.

Whatever is not in these tables and resembles nothing in them is none of parsing's business.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

from structout.errors import GrammarError
from structout.parsing.constructors import choice, ebnf, grammar, json_object, json_schema, lark, regex
from structout.parsing.limits import SpecLimits
from structout.parsing.openai import schema_or_wrapped
from structout.parsing.tags import structural_tag
from structout.result import Result
from structout.spec import GrammarSpec


class Constructor(Protocol):
    """Makes one kind of spec out of a field's value."""

    def __call__(self, value: object, /, *, limits: SpecLimits, pointer: str) -> Result[GrammarSpec, GrammarError]: ...


ConstructorTable: TypeAlias = Mapping[str, Constructor]

STRUCTURED_OUTPUTS: Final[ConstructorTable] = MappingProxyType(
    {
        "json": json_schema,
        "regex": regex,
        "choice": choice,
        "grammar": grammar,
        "json_object": json_object,
        "structural_tag": structural_tag,
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

STRUCTURED_OUTPUT_TYPES: Final[Mapping[str, tuple[Constructor, tuple[str, ...]]]] = MappingProxyType(
    {
        "json": (json_schema, ("schema",)),
        "regex": (regex, ("pattern", "regex")),
        "choice": (choice, ("choices", "choice")),
        "ebnf": (ebnf, ("grammar",)),
        "lark": (lark, ("grammar",)),
        "grammar": (grammar, ("grammar",)),
    }
)
"""Types of a loose ``structured_output`` beyond those of a response format, with the names their value goes by."""

WHOLE_FIELDS: Final[ConstructorTable] = MappingProxyType(
    {
        "json_schema": schema_or_wrapped,
        "regex": regex,
        "ebnf": ebnf,
        "structural_tag": structural_tag,
        "grammar": grammar,
        "guided_json": json_schema,
        "guided_regex": regex,
        "guided_choice": choice,
        "guided_grammar": grammar,
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
