"""What this plugin writes in xgrammar's EBNF: texts, choices, and the rules of automata."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from structout_xgrammar import codepoints
from structout_xgrammar.automaton import Automaton
from structout_xgrammar.codepoints import Ranges

_ESCAPED_IN_JSON: Final[Ranges] = ((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C))
_PLAIN_IN_JSON: Final = codepoints.complement(_ESCAPED_IN_JSON)
_BACKSLASH: Final = r'"\\"'
_SHORT_ESCAPES: Final = {'"': '"', "\\": "\\", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}


def text(value: str) -> str:
    """A literal. The empty text has one, too."""
    return '"' + "".join(map(_character, value)) + '"'


def _character(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if " " <= character <= "~" else f"\\U{ord(character):08x}"


def choice(options: Iterable[str]) -> str:
    """A grammar of one of several texts."""
    return "root ::= " + " | ".join(map(text, options))


def rules(machine: Automaton, name: str) -> str:
    """Rules that match what an automaton does, from the rule ``name``."""
    return "\n".join(_rules(machine, name, text(""), _plain))


def json_rules(machine: Automaton, name: str) -> str:
    """Rules for the JSON strings whose values an automaton matches, from ``name``: what follows their opening quote.

    Only characters that have to be escaped are, in their short form if they have one.
    """
    return "\n".join(_rules(machine, name, text('"'), _json))


def _rules(machine: Automaton, name: str, end: str, write: Callable[[Ranges], Iterator[str]]) -> Iterator[str]:
    for state in range(len(machine.moves)):
        options = [end] if state in machine.accepting else []
        for ranges, target in machine.targets(state):
            options += [f"{character} {_rule(name, target)}" for character in write(ranges)]
        yield f"{_rule(name, state)} ::= {' | '.join(options)}"


def _rule(name: str, state: int) -> str:
    return f"{name}_{state}" if state else name


def _plain(ranges: Ranges) -> Iterator[str]:
    yield codepoints.write(ranges)


def _json(ranges: Ranges) -> Iterator[str]:
    if plain := codepoints.intersection(ranges, _PLAIN_IN_JSON):
        yield codepoints.write(plain)
    escaped = codepoints.characters(codepoints.intersection(ranges, _ESCAPED_IN_JSON))
    if short := [_SHORT_ESCAPES[character] for character in escaped if character in _SHORT_ESCAPES]:
        yield f"{_BACKSLASH} {_class(short)}"
    for first in "01":
        codes = [f"{ord(character):02x}" for character in escaped if character not in _SHORT_ESCAPES]
        if last := [code[1] for code in codes if code[0] == first]:
            yield f"{_BACKSLASH} {text('u00' + first)} {_class([*last, *map(str.upper, last)])}"


def _class(characters: Iterable[str]) -> str:
    return codepoints.write(codepoints.union((ord(character), ord(character)) for character in characters))
