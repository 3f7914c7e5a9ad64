"""Risk classes: never an exception, never plain for what measurements found harmful, and more is never less."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structout import Choice, Ebnf, ErrorKind, JsonSchema, Lark, Regex
from structout.compile.risk import BOUNDS, Bound, Measure, Risk, RiskClass, bounds_for, measures_of, risk_of
from structout.compile.risk.measures import CAP, DESCRIPTIONS
from structout.compile.risk.texts import is_small
from structout.spec import SPEC_KINDS, GrammarSpec, JsonObject, StructuralTag
from tests import corpora

UNBOUNDED = {measure: Bound(CAP, CAP) for measure in Measure}
CLASSES = list(RiskClass)
BACKENDS = ("llguidance", "xgrammar", "outlines")

# Pieces of every language that is measured, and what no text should hold.
PIECES = [
    *'"[]{}():,|*+?.\\/~#\n -x1',
    "\0", "\ud800", "é", "{1,129}", "{999999999999}", "::=", "root ::= ", "start: ", "%json ", '"$ref":', '"#/$defs/a"',
    '{"anyOf":[', '"maxLength":', "1e999", "NaN", "[a-z]", '"pattern":"', '"multipleOf":0.0', "(?<a>",
]  # fmt: skip
texts = st.text() | st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


def schema(value: object) -> JsonSchema:
    return JsonSchema(json.dumps(value))


def of_every_kind(text: str) -> list[GrammarSpec]:
    return [
        JsonSchema(text, registry={"urn:a": text}),
        JsonSchema(text),
        StructuralTag(text),
        Regex(text),
        Ebnf(text),
        Lark(text),
        Choice([text]),
        JsonObject(),
    ]


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        value = {"type": "array", "items": value}
    return value


def nested_one_of(depth: int, children: int) -> dict[str, Any]:
    """oneOf with two branches at each level, of which so many go on."""
    if depth == 0:
        return {"type": "integer"}
    inner = nested_one_of(depth - 1, children)
    leaf = {"type": "integer"}
    branches = [{"type": "object", "properties": {"a": inner}}]
    branches.append({"type": "object", "properties": {"b": inner if children == 2 else leaf}})
    return {"oneOf": branches}


def reference_chain(length: int) -> dict[str, Any]:
    steps: dict[str, Any] = {f"d{each}": {"$ref": f"#/$defs/d{each + 1}"} for each in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**steps, f"d{length}": {"type": "integer"}}}


def unevaluated(depth: int, keyword: str = "allOf") -> dict[str, Any]:
    value: dict[str, Any] = {"type": "object", "properties": {"a": {}}}
    for _ in range(depth):
        value = {keyword: [value], "unevaluatedProperties": False}
    return value


def unevaluated_twice(depth: int) -> dict[str, Any]:
    steps: dict[str, Any] = {
        f"d{each}": {"allOf": [{"$ref": f"#/$defs/d{each + 1}"}, {"$ref": f"#/$defs/d{each + 1}"}]}
        for each in range(depth)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**steps, f"d{depth}": {}}, "unevaluatedItems": False}


def combinations(count: int) -> dict[str, Any]:
    return {"allOf": [{"anyOf": [{"title": "a"}, {"title": "b"}]} for _ in range(count)]}


@given(texts)
def test_it_never_raises_on_any_text(text: str) -> None:
    assert {spec.kind for spec in of_every_kind(text)} == set(SPEC_KINDS)
    for spec in of_every_kind(text):
        for backend in (*BACKENDS, "unknown"):
            assert risk_of(spec, bounds_for(backend)).risk_class in RiskClass


@pytest.mark.parametrize("piece", ["[", "{", '{"a":', '{"anyOf":[', "(", "((a){2}", '"', "[^", "%json [", "\\", "a?"])
def test_long_hostile_text_is_neither_recursed_into_nor_plain_where_it_nests(piece: str) -> None:
    for spec in of_every_kind(piece * 100_000):
        risk = risk_of(spec)
        if isinstance(spec, Regex | Ebnf) and piece in ("(", "((a){2}"):
            assert risk.risk_class is RiskClass.OVER


HARMFUL: Mapping[str, GrammarSpec] = {
    "3,000 references": schema(reference_chain(3000)),
    "an enum of 20,000 strings": schema({"enum": [f"value {each:05}" for each in range(20_000)]}),
    "oneOf 12 deep, with 4,096 ends": schema(nested_one_of(12, children=2)),
    "three nested repetitions": Regex("(([a-z]{1,129}){1,129}){1,129}"),
    "400 nested arrays": schema(nested(400)),
    "20,000 optional atoms": Regex("a?" * 20_000),
    "20,000 optional atoms in a schema": schema({"type": "string", "pattern": "a?" * 20_000}),
    "65,536 combinations": schema(combinations(16)),
    "65,536 combinations in a circle": schema(
        {
            "$ref": "#/$defs/d0",
            "$defs": {
                f"d{each}": {
                    "anyOf": [{"title": "a"}, {"title": "b"}],
                    "allOf": [{"$ref": f"#/$defs/d{each + 1}"} if each < 15 else {"items": {"$ref": "#"}}],
                }
                for each in range(16)
            },
        }
    ),
    "a large divisor": schema({"type": "integer", "multipleOf": 99_991}),
    "18 unevaluatedProperties in 853 bytes": schema(unevaluated(18)),
    "unevaluatedItems over 2^14 references": schema(unevaluated_twice(14)),
    "the same, from which a reference leads back": schema(
        unevaluated_twice(14) | {"properties": {"a": {"$ref": "#/$defs/d0"}, "b": {"$ref": "#"}}}
    ),
    "20,000 options": Choice([f"category {each:05} label" for each in range(20_000)]),
    "3,000 rules": Ebnf("root ::= r0\n" + "".join(f"r{n} ::= r{n + 1}\n" for n in range(3000)) + 'r3000 ::= "a"'),
    "3,000 Lark rules": Lark("start: r0\n" + "".join(f"r{n}: r{n + 1}\n" for n in range(3000)) + 'r3000: "a"'),
    "a schema in Lark": Lark('start: %json {"enum": ' + json.dumps([f"v{n}" for n in range(20_000)]) + "}"),
}
"""What is harmful on every backend."""


@pytest.mark.parametrize("name", HARMFUL)
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_harmful_everywhere_is_plain_nowhere(name: str, backend: str) -> None:
    assert risk_of(HARMFUL[name], bounds_for(backend)).risk_class is not RiskClass.PLAIN


@pytest.mark.parametrize(
    ("spec", "backends"),
    [
        # llguidance's automata are made as they are walked: neither costs it more than a literal.
        (Regex("[a-z]{1,129}"), ["xgrammar", "outlines"]),
        (Regex("[ab]*a[ab]{20}"), ["xgrammar", "outlines"]),
        (Regex("[ab]*a" + "[ab]" * 20), ["xgrammar", "outlines"]),
        (schema(nested_one_of(12, children=1)), ["xgrammar", "outlines"]),
        (schema({"type": "object", "properties": {"synchronize_users": True}}), ["xgrammar", "outlines"]),
        (schema({"type": "array", "maxItems": 100, "items": {"maxLength": 100}}), ["xgrammar", "outlines"]),
        (schema({"properties": {"a": {"type": "string"}}, "additionalProperties": False}), ["outlines"]),
    ],
)
def test_some_specs_are_harmful_on_some_backends_only(spec: GrammarSpec, backends: list[str]) -> None:
    plain = [each for each in BACKENDS if risk_of(spec, bounds_for(each)).risk_class is RiskClass.PLAIN]
    assert plain == [each for each in BACKENDS if each not in backends]


def test_nothing_but_the_trivial_is_plain_on_a_backend_that_was_not_measured() -> None:
    assert risk_of(Regex("a"), bounds_for("unknown")).risk_class is RiskClass.RISKY
    assert risk_of(JsonObject(), bounds_for("unknown")).risk_class is RiskClass.PLAIN


KNOWN_HARMLESS = {
    "cr-nested-star", "cr-nul-regex", "cr-self-ref", "cr-self-rule", "cr-union-cycle",  # a few bytes each
    "hg-dfa-regex", "hg-big-repeat", "hg-outlines-bounds", "hg-optional24", "pf-enum-1000", "pf-choices-2500",
    "pf-choices-3000",
}  # fmt: skip
"""Cases that take llguidance less than 50 ms, or that it refuses in less."""


def test_reported_crashes_hangs_and_slow_specs_are_not_plain_unless_measured_to_be() -> None:
    makers: dict[str, Callable[[Any], GrammarSpec]] = {
        "json_schema": lambda given: JsonSchema(given if isinstance(given, str) else json.dumps(given)),
        "regex": Regex,
        "ebnf": Ebnf,
        "choice": lambda given: Choice(json.loads(given) if isinstance(given, str) else given),
    }
    reported = [
        case
        for case in corpora.cases()
        if case["kind"] in makers and any(word in case["class"] for word in ("crash", "hang", "performance"))
    ]
    plain = {each["id"] for each in reported if risk_of(makers[each["kind"]](each["input"])) == Risk(RiskClass.PLAIN)}
    assert plain == KNOWN_HARMLESS & {each["id"] for each in reported}
    assert {each["id"] for each in reported} > KNOWN_HARMLESS


def test_nine_of_ten_real_schemas_are_plain_and_none_is_refused() -> None:
    classes = [risk_of(schema(each["schema"])).risk_class for each in corpora.maskbench()]
    assert classes.count(RiskClass.PLAIN) >= 0.9 * len(classes)
    assert RiskClass.OVER not in classes


GROWING: Mapping[str, Callable[[int], GrammarSpec]] = {
    "nesting": lambda n: schema(nested(n)),
    "references": lambda n: schema(reference_chain(n)),
    "enum": lambda n: schema({"enum": [str(each) for each in range(n)]}),
    "combinations": lambda n: schema(combinations(n)),
    "unevaluated": lambda n: schema(unevaluated(n, "oneOf")),
    "unevaluated references": lambda n: schema(unevaluated_twice(n)),
    "properties": lambda n: schema({"properties": {str(each): {} for each in range(n)}}),
    "counts": lambda n: schema({"maxItems": n, "items": {"maxItems": n, "items": {"maxLength": n}}}),
    "divisors": lambda n: schema({"multipleOf": n}),
    "repetition": lambda n: Regex(f"(([a-z]{{1,{n}}}){{1,{n}}}){{1,{n}}}"),
    "literals": lambda n: Regex("ab" * n),
    "optional": lambda n: Regex("a?" * n),
    "groups": lambda n: Regex("(" * n + ")" * n),
    "rules": lambda n: Ebnf("root ::= r0\n" + "".join(f"r{each} ::= r{each + 1}{{1,2}}\n" for each in range(n))),
    "Lark": lambda n: Lark("start: r0\n" + "".join(f"r{each}: r{each + 1}~1..2\n" for each in range(n))),
    "options": lambda n: Choice(str(each) for each in range(n)),
    "tags": lambda n: StructuralTag(json.dumps({"format": {"type": "json_schema", "json_schema": nested(n)}})),
}


@given(st.sampled_from(list(GROWING)), st.integers(1, 300), st.integers(0, 300), st.sampled_from(BACKENDS))
def test_more_of_anything_is_never_a_better_class(name: str, size: int, more: int, backend: str) -> None:
    small, large = (risk_of(GROWING[name](each), bounds_for(backend)).risk_class for each in (size, size + more))
    assert CLASSES.index(small) <= CLASSES.index(large)


@pytest.mark.parametrize("name", GROWING)
def test_enough_of_anything_is_not_plain_on_a_tight_budget(name: str) -> None:
    tight = {measure: Bound(8, 10_000) for measure in Measure}
    assert risk_of(GROWING[name](200), tight).risk_class is not RiskClass.PLAIN


KEYWORDS = [
    "$ref", "$defs", "unevaluatedProperties", "dependentSchemas", "not", "allOf", "anyOf", "oneOf", "enum", "const",
    "items", "maxItems", "maxLength", "multipleOf", "pattern", "properties", "patternProperties",
    "additionalProperties", "a", "title",
]  # fmt: skip

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 300) | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(KEYWORDS),
            inner | st.sampled_from(["#", "#/$defs/a", "#/properties/a", "x{2,9}(a|b)?"]),
            max_size=5,
        )
    ),
    max_leaves=25,
)


def shuffled(value: Any) -> Any:
    """The same value with every object's members in the opposite order."""
    if isinstance(value, dict):
        return {key: shuffled(inner) for key, inner in reversed(value.items())}
    return [shuffled(each) for each in value] if isinstance(value, list) else value


@given(json_values)
def test_neither_the_order_of_members_nor_white_space_changes_what_is_measured(value: object) -> None:
    written = measures_of(schema(value), UNBOUNDED)
    others = [JsonSchema(json.dumps(shuffled(value))), JsonSchema(json.dumps(value, indent=3))]
    for other in others:
        found = measures_of(other, UNBOUNDED)
        for measure in set(Measure) - {Measure.SCHEMA_BYTES}:
            assert found[measure] == written[measure], measure


@given(json_values, st.integers(1, 60), st.sampled_from(BACKENDS))
def test_what_is_plain_by_its_look_is_plain_by_what_it_says(value: object, bound: int, backend: str) -> None:
    text = json.dumps(value)
    for bounds in (bounds_for(backend), {measure: Bound(bound, CAP) for measure in Measure}):
        if is_small(text, bounds):
            assert all(count <= bounds[name].plain for name, count in measures_of(JsonSchema(text), UNBOUNDED).items())


@given(json_values)
def test_a_schema_with_another_beside_it_is_of_no_better_class(value: object) -> None:
    alone, beside = (risk_of(schema(each), BOUNDS).risk_class for each in (value, {"allOf": [value, value]}))
    assert CLASSES.index(alone) <= CLASSES.index(beside)


@pytest.mark.parametrize(
    ("pattern", "positions", "optional"),
    [
        ("abc", 0, 0),
        ("a{3}", 3, 0),
        ("[a-z]{1,129}", 129, 128),
        ("(ab|c){2}", 6, 0),
        ("(([a-z]{1,129}){1,129}){1,129}", 129**3, 129**3 - 1),
        (r"\d+\.\w?x{2,}", 4, 1),
        ("[]a{1,9}]", 10, 8),
        (r"\{1,9\}[{1,9}]", 1, 0),
        ("a{99999999999999999999}", CAP, 0),
        ("(?:a{2})?(?<n>b)", 2, 1),
    ],
)
def test_regular_expressions_are_measured_with_repetitions_written_out(
    pattern: str, positions: int, optional: int
) -> None:
    found = measures_of(Regex(pattern), UNBOUNDED)
    assert (found[Measure.POSITIONS], found[Measure.OPTIONAL]) == (positions, optional)


@pytest.mark.parametrize(
    ("value", "measure", "expected"),
    [
        (reference_chain(5), Measure.REFERENCES, 6),
        ({"$ref": "#"}, Measure.REFERENCES, 1),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, Measure.REFERENCES, 2),
        ({"allOf": [{"$ref": "#a"}, {"$ref": "urn:b"}]}, Measure.REFERENCES, 2),
        (combinations(5), Measure.ALTERNATIVES, 32),
        ({"anyOf": [{}, {"oneOf": [{}, {}, {}]}]}, Measure.ALTERNATIVES, 4),
        ({"$ref": "#/$defs/a", "anyOf": [{}, {}], "$defs": {"a": {"anyOf": [{}, {}, {}]}}}, Measure.ALTERNATIVES, 6),
        ({"unevaluatedItems": False}, Measure.UNEVALUATED, 0),
        ({"unevaluatedItems": False, "allOf": [{}, {}]}, Measure.UNEVALUATED, 6),
        ({"unevaluatedItems": False, "if": {}, "dependentSchemas": {"a": {}}}, Measure.UNEVALUATED, 8),
        ({"unevaluatedItems": False, "properties": {"a": {"not": {}}}}, Measure.UNEVALUATED, 2),
        ({"allOf": [{"$ref": "urn:b"}, {"$ref": "urn:b"}], "unevaluatedItems": {}}, Measure.UNEVALUATED, 18),
        ({"allOf": [{"$ref": "#/$defs/a"}] * 3, "$defs": {"a": {"not": {}}}}, Measure.UNEVALUATED, 0),
        ({"maxItems": 4, "items": {"properties": {"a": {"minLength": 5}}}}, Measure.REPETITION, 20),
        ({"maxItems": 4, "items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"maxLength": 7.0}}}, Measure.REPETITION, 28),
        ({"maxLength": 1e300}, Measure.REPETITION, CAP),
        ({"multipleOf": 0.25, "allOf": [{"multipleOf": 3}, {"multipleOf": 3}]}, Measure.DIVISOR, 75),
        ({"properties": {"ab": {}, "c": {}}}, Measure.OPEN_NAMES, 3),
        ({"properties": {"ab": {}}, "additionalProperties": False}, Measure.OPEN_NAMES, 0),
        ({"enum": ["ab", 1], "items": {"const": "cde"}}, Measure.CONST_BYTES, 5),
        ({"patternProperties": {"x{5}": {"pattern": "y{6}"}}}, Measure.POSITIONS, 11),
    ],
)
def test_schemas_are_measured_with_references_followed(value: object, measure: Measure, expected: int) -> None:
    assert measures_of(schema(value), UNBOUNDED)[measure] == expected


def test_a_registry_counts_as_part_of_the_schema() -> None:
    spec = JsonSchema('{"$ref": "urn:a"}', registry={"urn:a": json.dumps(nested(200))})
    assert risk_of(JsonSchema(spec.text)).risk_class is RiskClass.PLAIN
    assert risk_of(spec).risk_class is not RiskClass.PLAIN


def test_a_text_over_the_hard_bound_of_bytes_is_refused_unread() -> None:
    text = "{" * (BOUNDS[Measure.SCHEMA_BYTES].hard + 1)
    assert set(measures_of(JsonSchema(text), BOUNDS)) == {Measure.SCHEMA_BYTES}
    assert risk_of(JsonSchema(text)).measure is Measure.SCHEMA_BYTES


@pytest.mark.parametrize("measure", Measure)
def test_a_refusal_names_the_measure_its_value_the_limit_and_what_to_do(measure: Measure) -> None:
    error = Risk(RiskClass.OVER, measure, 12_345, 678).error()
    what, hint = DESCRIPTIONS[measure]
    assert error.kind is ErrorKind.TOO_COMPLEX
    assert f"{what} is 12,345" in error.message
    assert "678" in error.message
    assert error.hint == hint


@pytest.mark.parametrize("risk", [Risk(RiskClass.PLAIN), Risk(RiskClass.RISKY, Measure.ENUM, 2, 1)])
def test_only_what_is_over_has_an_error(risk: Risk) -> None:
    with pytest.raises(ValueError, match="not refused"):
        risk.error()


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_measure_has_bounds_that_fit_each_other(backend: str) -> None:
    bounds = bounds_for(backend)
    assert set(bounds) == set(Measure)
    assert all(0 <= bound.plain <= bound.hard for bound in bounds.values())


@pytest.mark.parametrize(
    "spec",
    [
        Ebnf('root ::= a{8}\na ::= b{8}\nb ::= c{8}\nc ::= "x" c | "y"'),
        JsonSchema(
            json.dumps(
                {
                    "maxItems": 8,
                    "items": {"maxItems": 8, "items": {"maxItems": 8, "items": {"$ref": "#/$defs/a"}}},
                    "$defs": {"a": {"properties": {"a": {"$ref": "#/$defs/a"}}}},
                }
            )
        ),
    ],
    ids=["rules", "references"],
)
def test_what_leads_into_a_circle_multiplies_all_the_way(spec: GrammarSpec) -> None:
    measures = measures_of(spec, BOUNDS)
    assert max(measures[Measure.GRAMMAR_REPETITION], measures[Measure.REPETITION]) == 8**3
