"""Cases for JSON Schema: what is in them is what they say."""

from hypothesis import given, settings
from hypothesis import strategies as st

from structout.fuzz.case import Case
from structout.fuzz.json_cases import cases_for, json_cases, schema_case
from structout.schema import reference_validator
from structout.spec import Dialect, JsonSchema, Policy, Serialization, Whitespace


@settings(max_examples=40)
@given(json_cases(policy=Policy.EXACT))
def test_members_are_valid_and_strangers_are_not(case: Case) -> None:
    assert isinstance(case.spec, JsonSchema)
    assert case.spec.policy is Policy.EXACT
    validator = reference_validator(case.spec).unwrap()
    assert all(validator.is_valid(member.text) for member in case.members)
    assert not any(validator.is_valid(stranger.text) for stranger in case.strangers)
    assert len(case.members) <= 9
    assert len(case.strangers) <= 8


@settings(max_examples=40)
@given(json_cases())
def test_a_case_is_what_its_spec_and_seed_make_of_it(case: Case) -> None:
    assert isinstance(case.spec, JsonSchema)
    assert schema_case(case.spec, case.seed).unwrap() == case


@settings(max_examples=40)
@given(json_cases(dialect=Dialect.DRAFT_7, serialization=Serialization(Whitespace.COMPACT)))
def test_dialect_and_serialization_can_be_chosen(case: Case) -> None:
    assert isinstance(case.spec, JsonSchema)
    schema = case.spec.schema()
    assert isinstance(schema, bool) or schema["$schema"] == Dialect.DRAFT_7
    assert case.spec.serialization.whitespace is Whitespace.COMPACT


@settings(max_examples=40)
@given(st.data())
def test_cases_of_one_spec(data: st.DataObject) -> None:
    spec = JsonSchema('{"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}}, "required": ["a"]}')
    case = data.draw(cases_for(spec))
    assert case.spec == spec
    assert case.members
    assert case.strangers
