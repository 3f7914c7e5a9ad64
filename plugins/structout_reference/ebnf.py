"""GBNF, the EBNF of llama.cpp and xgrammar: rules, texts, classes, groups, ``| * + ? {m,n}``, comments, any recursion.

Classes and texts have the escapes ``\\n \\r \\t \\xHH \\uHHHH \\UHHHHHHHH`` and of punctuation.
"""

import re
import string
from typing import Final

from structout.errors import ErrorKind
from structout_reference.characters import Ranges, single, utf8
from structout_reference.errors import refused
from structout_reference.nodes import Node, Ref, Rules, seq
from structout_reference.reader import Reader, bounded

_SPACE: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)
_RULE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)[ \t]*::=", re.ASCII)
_CODE: Final = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})", re.ASCII)
_CONTROL: Final = {"n": "\n", "r": "\r", "t": "\t"}


def read_ebnf(source: str, root: str) -> Rules:
    """The rules of a grammar."""
    reader = _GrammarReader(source, utf8)
    rules = reader.rules()
    for name, offset in {root: None, **reader.references}.items():
        if name not in rules:
            raise refused(f"There is no rule {name!r}.", ErrorKind.INVALID_SPEC, offset=offset)
    return rules


class _GrammarReader(Reader):
    def rules(self) -> dict[str, Node]:
        """All rules. Notes in ``references`` where each name was first used."""
        self.references: dict[str, int] = {}
        found: dict[str, Node] = {}
        self.skip()
        while self.next:
            start, rule = self.offset, self.take_match(_RULE)
            if rule is None:
                raise self.malformed("Here a rule should begin, such as: name ::= ...")
            if rule[1] in found:
                raise self.malformed(f"There are two rules {rule[1]!r}.", start)
            found[rule[1]] = bounded(self.options())
        return found

    def skip(self) -> None:
        self.take_match(_SPACE)

    def ends_sequence(self) -> bool:
        return super().ends_sequence() or _RULE.match(self.source, self.offset) is not None

    def atom(self, start: int) -> Node:
        if name := self.take_match(_NAME):
            self.references.setdefault(name[0], start)
            return Ref(name[0])
        if self.take('"'):
            return self._text(start)
        if self.take("["):
            return self.encode(self.character_class(start))
        if self.take("(") and self.next != "=":
            return self.group(start)
        if self.next in "*+?{}]":
            raise self.malformed(f"There is nothing for {self.next!r} to do.")
        raise self.unsupported(f"{self.source[start]!r} is not supported here.", start)

    def _text(self, start: int) -> Node:
        parts: list[Node] = []
        while not self.take('"'):
            if not self.next:
                raise self.malformed("A text is not closed.", start)
            parts.append(self.encode(self.class_member(start)))
        return seq(*parts)

    def escape(self, start: int) -> Ranges:
        letter = self.next
        if code := self.take_match(_CODE):
            return self._coded(int(code[1] or code[2] or code[3], 16), start)
        self.offset += 1
        if letter in _CONTROL:
            return single(_CONTROL[letter])
        if letter in string.punctuation and letter:
            return single(letter)
        raise self.malformed(f"\\{letter} is no escape.", start)

    def _coded(self, code: int, start: int) -> Ranges:
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise self.malformed("This escape names no character.", start)
        return single(chr(code))
