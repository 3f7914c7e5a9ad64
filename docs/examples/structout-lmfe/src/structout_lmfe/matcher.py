"""Compiled grammars and matchers, over lm-format-enforcer's parsers of characters.

The library's own loop, `TokenEnforcer`, is not used: where a parser fails it logs the error and allows the end of the
sequence, so that half a document is reported as finished, and it keeps every prefix that it has ever seen.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from lmformatenforcer import CharacterLevelParser
from structout import Finding, Status
from structout.backend import BitmaskRow

from structout_lmfe.tokens import Tokens

logger = logging.getLogger(__name__)


class State:
    """A parser before or after a token. Parsers are never changed, so states can be kept and returned to.

    Args:
        parser: lm-format-enforcer's.
        is_escaping: whether the text ends with a backslash that begins an escape.
        has_ended: whether a stop token was accepted.
    """

    def __init__(self, parser: CharacterLevelParser, *, is_escaping: bool = False, has_ended: bool = False) -> None:
        self.parser: Any = parser
        self.is_escaping = is_escaping
        self.has_ended = has_ended
        self._allowed: frozenset[int] | None = None

    def allowed(self, tokens: Tokens) -> frozenset[int]:
        """The tokens of text that may follow."""
        if self._allowed is None:
            self._allowed = frozenset(self._collected(tokens))
        return self._allowed

    def _collected(self, tokens: Tokens) -> set[int]:
        found = set(self._freetext(tokens)) - tokens.raw
        # Inside of a string without limits the library knows the tokens; only those that begin with its end are left.
        only = {'"'} if self.parser.shortcut_key() else None
        ahead = [(tokens.tree.root, self.parser)]
        while ahead:
            node, parser = ahead.pop()
            found.update(node.tokens)
            characters = node.children.keys() & set(parser.get_allowed_characters()) & (only or node.children.keys())
            ahead += [(node.children[each], parser.add_character(each)) for each in characters]
            only = None
        if self.is_escaping:
            found = {token for token in found if not tokens.texts[token].startswith("u")}
        return found

    def _freetext(self, tokens: Tokens) -> Sequence[int]:
        if (key := self.parser.shortcut_key()) is None:
            return ()
        _, length, least, most = key
        cache = tokens.tree.json_freetext_tokens
        room = min(cache.max_token_len, most - length)
        found: Sequence[int] = cache.lookup_allowed_tokens(max(0, least - length), room).allowed_tokens
        return found

    def after(self, text: str) -> "State":
        parser = self.parser
        for character in text:
            parser = parser.add_character(character)
        return State(parser, is_escaping=text == "\\" and not self.is_escaping)


class LmfeMatcher:
    """The state of one sequence. Rollback only drops states; there is no fork, since states share mutable context."""

    def __init__(self, tokens: Tokens, stops: frozenset[int], first: State) -> None:
        self._tokens = tokens
        self._stops = stops
        self._states = [first]

    @property
    def is_terminated(self) -> bool:
        return self._states[-1].has_ended

    @property
    def is_accepting(self) -> bool:
        return bool(self._states[-1].parser.can_end())

    def fill(self, row: BitmaskRow) -> Status:
        if self.is_terminated:
            return Status.TERMINATED
        try:
            allowed = self._allowed()
        except Exception:
            logger.exception("lm-format-enforcer failed")
            return Status.FAILED
        bits = np.zeros(len(row) * 32, np.uint8)
        bits[list(allowed)] = 1
        row[:] = np.packbits(bits, bitorder="little").view(np.int32)
        return Status.OK

    def _allowed(self) -> frozenset[int]:
        text = self._states[-1].allowed(self._tokens) - self._stops
        return text | self._stops if self.is_accepting else text

    def accept(self, token: int) -> Status:
        if self.is_terminated:
            return Status.TERMINATED
        try:
            if token not in self._allowed():
                return Status.REJECTED
            self._states.append(self._after(token))
        except Exception:
            logger.exception("lm-format-enforcer failed")
            return Status.FAILED
        return Status.OK

    def _after(self, token: int) -> State:
        here = self._states[-1]
        return State(here.parser, has_ended=True) if token in self._stops else here.after(self._tokens.texts[token])

    def rollback(self, tokens: int) -> Status:
        if tokens >= len(self._states):
            return Status.REJECTED
        del self._states[len(self._states) - tokens :]
        return Status.OK


class LmfeGrammar:
    """A compiled grammar.

    Args:
        tokens: of the vocabulary.
        new_parser: makes a parser. Each sequence gets its own: those of one schema share what they are just doing.
        unenforced, narrowed: see `structout.backend.CompiledGrammar`.
    """

    def __init__(
        self,
        tokens: Tokens,
        new_parser: Callable[[], CharacterLevelParser],
        unenforced: Sequence[Finding] = (),
        narrowed: Sequence[Finding] = (),
    ) -> None:
        self._tokens = tokens
        self._new_parser = new_parser
        self.unenforced = unenforced
        self.narrowed = narrowed

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> LmfeMatcher:
        return LmfeMatcher(self._tokens, frozenset(stop_token_ids), State(self._new_parser()))
