"""RFC 6901: joining, splitting and resolving JSON pointers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structout.result import Err, Ok
from structout.schema import pointer

# The document and the table of RFC 6901, sections 5 and 6.
DOCUMENT: dict[str, Any] = {
    "foo": ["bar", "baz"],
    "": 0,
    "a/b": 1,
    "c%d": 2,
    "e^f": 3,
    "g|h": 4,
    "i\\j": 5,
    'k"l': 6,
    " ": 7,
    "m~n": 8,
}
EXAMPLES = {
    "": DOCUMENT,
    "/foo": ["bar", "baz"],
    "/foo/0": "bar",
    "/": 0,
    "/a~1b": 1,
    "/c%d": 2,
    "/e^f": 3,
    "/g|h": 4,
    "/i\\j": 5,
    '/k"l': 6,
    "/ ": 7,
    "/m~0n": 8,
}


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_examples_of_the_standard(text: str) -> None:
    assert pointer.resolve(DOCUMENT, text) == Ok(EXAMPLES[text])


@pytest.mark.parametrize(
    ("fragment", "expected"),
    [("", ""), ("/foo/0", "/foo/0"), ("/c%25d", "/c%d"), ("/e%5Ef", "/e^f"), ("/k%22l", '/k"l'), ("/%20", "/ ")],
)
def test_fragments_of_the_standard(fragment: str, expected: str) -> None:
    assert pointer.from_fragment(fragment) == Ok(expected)


def test_a_fragment_that_is_not_utf_8_is_an_error() -> None:
    assert isinstance(pointer.from_fragment("/%ff"), Err)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("foo", "does not start with '/'"),
        ("/m~n", "'~'"),
        ("/m~", "'~'"),
        ("/bar", "no 'bar'"),
        ("/foo/2", "no '2'"),
        ("/foo/00", "no '00'"),
        ("/foo/-", "no '-'"),
        ("/foo/-1", "no '-1'"),
        ("/foo/١", "no '١'"),
        ("/foo/0/0", "no '0'"),
        ("/foo/" + "9" * 5000, "no '9"),
    ],
)
def test_what_names_nothing_is_an_error_with_its_reason(text: str, reason: str) -> None:
    match pointer.resolve(DOCUMENT, text):
        case Err(message):
            assert reason in message
        case Ok(value):
            pytest.fail(f"{text} resolved to {value!r}")


@given(st.lists(st.text()))
def test_splitting_undoes_joining(tokens: list[str]) -> None:
    assert pointer.split(pointer.join("", *tokens)) == Ok(tuple(tokens))


@given(st.lists(st.text() | st.integers(0, 3), max_size=5), st.integers())
def test_a_joined_pointer_resolves_to_what_its_tokens_lead_to(tokens: list[str | int], leaf: int) -> None:
    document: Any = leaf
    for token in reversed(tokens):
        document = {token: document} if isinstance(token, str) else [None] * token + [document]
    assert pointer.resolve(document, pointer.join("", *tokens)) == Ok(leaf)


@given(st.lists(st.sampled_from(["", "a", "b"]) | st.integers(0, 2), max_size=6), st.integers())
def test_a_path_is_completed_by_the_empty_names_that_it_lacks(tokens: list[str | int], leaf: int) -> None:
    document: Any = leaf
    for token in reversed(tokens):
        document = {token: document} if isinstance(token, str) else [None] * token + [document]
    whole = pointer.with_empty_names(document, [token for token in tokens if token != ""])
    while whole != tuple(tokens):
        # Nothing says that the path ends behind an empty name.
        assert tokens.pop() == ""


def test_a_path_that_leads_nowhere_stays() -> None:
    assert pointer.with_empty_names({"": {"a": 1}}, ["b"]) == ("b",)
