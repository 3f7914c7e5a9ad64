"""What is found forced by looking ahead: bounded, whatever the grammar; and what the matcher lets through, no more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structout.backend import BitmaskRow, Status
from structout.forced import LookAhead
from structout.vocabulary import Vocabulary
from tests.fakes import BYTES, EOS, ForcingTrieMatcher, ForkTrieMatcher

OPTIONS = st.lists(st.sampled_from(["", "a", "ab", "abc", "abcd", "cd", "cdef", "é", "è", "日本", "日"]), min_size=1)


@given(options=OPTIONS, limit=st.integers(0, 8))
def test_what_is_forced_is_what_all_texts_begin_with(options: list[str], limit: int) -> None:
    texts = [option.encode() for option in options]
    matcher = ForkTrieMatcher(frozenset(texts), BYTES, frozenset([EOS]))
    shared = ForcingTrieMatcher(frozenset(texts), BYTES, frozenset([EOS])).forced_text(limit)
    assert LookAhead(BYTES).forced_text(matcher, limit, frozenset([EOS])) == shared
    assert matcher.text == b""


def test_a_stop_token_that_is_text_is_a_choice() -> None:
    """A text that may end has no forced text, though the token that ends it begins like all that follow."""
    matcher = ForkTrieMatcher(frozenset([b"a", b"aab"]), BYTES, frozenset([ord("a")]))
    ahead = LookAhead(BYTES)
    assert ahead.forced_text(matcher, 8, frozenset([ord("a")])) == b""


def test_nothing_is_forced_where_a_token_holds_a_byte_that_none_begins_with() -> None:
    vocabulary = Vocabulary.from_tokens([b"a", b"ab", b""], eos_token_ids=[2])
    matcher = ForkTrieMatcher(frozenset([b"a", b"ab"]), vocabulary, frozenset([2]))
    assert LookAhead(vocabulary).forced_text(matcher, 8, frozenset([2])) == b""


def test_what_is_raised_ahead_ends_the_walk() -> None:
    class Breaks(ForkTrieMatcher):
        def fill(self, row: BitmaskRow) -> Status:
            if self.text == b"abc":
                raise MemoryError
            return super().fill(row)

    matcher = Breaks(frozenset([b"abcd"]), BYTES, frozenset([EOS]))
    assert LookAhead(BYTES).forced_text(matcher, 8, frozenset([EOS])) == b"abc"


GRAMMARS = {
    "without end": 'root ::= "a" root',
    "without end after a choice": 'root ::= "x" | "a" r2\nr2 ::= "b" r2',
    "a gigabyte": "root ::= r1 r1\n" + "\n".join(f"r{n} ::= r{n + 1} r{n + 1}" for n in range(1, 30)) + '\nr30 ::= "a"',
}


@pytest.mark.parametrize("name", GRAMMARS)
@pytest.mark.parametrize("backend", ["xgrammar", "llguidance"])
def test_it_comes_back_whatever_is_forced(name: str, backend: str) -> None:
    pytest.importorskip(backend)
    from structout import Err, ErrorKind, Ok
    from structout.discovery import discover
    from structout.grammar import BoundBackend
    from structout.spec import Ebnf, Lark

    found = discover().find(backend).unwrap()
    bound = BoundBackend.create(found.info, found.distribution, BYTES).unwrap()
    text = GRAMMARS[name]
    spec = Ebnf(text) if backend == "xgrammar" else Lark(text.replace("root", "start").replace("::=", ":"))
    match bound.compile(spec):
        case Ok(grammar):
            constraint = grammar.start().unwrap()
            constraint.accept(ord("a"))
            assert len(constraint.forced_text(100)) <= 100
            assert constraint.error is None
        case Err(error):  # refused for its size, or for having no end
            assert error.kind is not ErrorKind.BACKEND_FAILURE
