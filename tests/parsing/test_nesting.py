"""The scan for nesting: what counts as a bracket in each syntax."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structout.parsing.nesting import Syntax, nesting, nesting_above

DEPTHS = [
    (Syntax.JSON, "{}", 1),
    (Syntax.JSON, r'["[[[[", "\"[[", "\\", [1]]', 2),
    (Syntax.JSON, '["never closed [[[', 1),
    (Syntax.REGEX, "a", 0),
    (Syntax.REGEX, "(a(b)(?:c))(d)", 2),
    (Syntax.REGEX, r"\(\((a)", 1),
    (Syntax.REGEX, "[(((](a)", 1),
    (Syntax.REGEX, r"[\](((](a)", 1),
    (Syntax.REGEX, "[]((](a)", 1),
    (Syntax.REGEX, "[^]((](a)", 1),
    (Syntax.REGEX, r"\\(a)", 1),
    (Syntax.REGEX, ")))((", 2),
    (Syntax.EBNF, 'root ::= ("a" (b | c)*)', 2),
    (Syntax.EBNF, 'root ::= "(((" [((] # ((((\n (b)', 1),
    (Syntax.LARK, 'start: ("a" ["b" (c)])', 3),
    (Syntax.LARK, 'start: "(((" /\\/((/ // (((\n (b)', 1),
]


@pytest.mark.parametrize(("syntax", "text", "depth"), DEPTHS)
def test_depth(syntax: Syntax, text: str, depth: int) -> None:
    assert nesting(text, syntax) == depth


def depth_of(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    parts = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth_of, parts), default=0)


TEXTS = st.text(alphabet='a[]{}"\\')


@given(st.recursive(st.none() | TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)))
def test_json_nests_as_deep_as_its_value(value: Any) -> None:
    assert nesting(json.dumps(value), Syntax.JSON) == depth_of(value)


@given(st.text(alphabet='a()[]{}"\\/#\n'), st.sampled_from(Syntax), st.integers(0, 8))
def test_a_limit_is_exceeded_where_the_scan_says_so(text: str, syntax: Syntax, limit: int) -> None:
    depth = nesting(text, syntax)
    assert nesting_above(limit, text, syntax) == (depth if depth > limit else None)


@pytest.mark.parametrize("syntax", Syntax)
@pytest.mark.parametrize("unit", ["(", "[", '"', "\\", "/", "#", "//", "[^", '"\\', "\n"])
def test_what_never_ends_is_scanned_once(syntax: Syntax, unit: str) -> None:
    """A scan that went back for each of 200,000 units would not return."""
    assert 0 <= nesting(unit * 200_000, syntax) <= 200_000
