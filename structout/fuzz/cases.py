"""Cases for a backend: generated ones of every kind of spec that it takes."""

from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias

from structout.fuzz.case import Case
from structout.fuzz.choices import Choices
from structout.fuzz.json_cases import json_case, schema_case
from structout.fuzz.languages import choice_case, ebnf_case, regex_case, tag_case
from structout.spec import JsonSchema

MakeCase: TypeAlias = Callable[[Choices], Case]
"""Makes a case of choices: seeded ones in a campaign, recorded ones when it is made smaller."""

MAKERS: Final[Mapping[str, MakeCase]] = {
    "json_schema": json_case,
    "regex": regex_case,
    "ebnf": ebnf_case,
    "choice": choice_case,
    "structural_tag": tag_case,
}
"""By kind of spec."""
WEIGHTS: Final = {"json_schema": 6}
"""How often a kind comes up; 1 for the others."""


def any_case(kinds: Collection[str]) -> MakeCase:
    """Makes cases of these kinds of spec. Raises ValueError if none of them can be made."""
    weighted = [(WEIGHTS.get(kind, 1), make) for kind, make in MAKERS.items() if kind in kinds]
    if not weighted:
        raise ValueError(f"nothing makes specs of the kinds {sorted(kinds)}; there are {sorted(MAKERS)}")
    return lambda choices: choices.weighted(weighted)(choices)


def cases_of(spec: JsonSchema) -> MakeCase:
    """Makes cases of one schema, which `structout.schema.check_schema` has nothing against."""
    return lambda choices: schema_case(spec, choices.below(2**32)).unwrap()
