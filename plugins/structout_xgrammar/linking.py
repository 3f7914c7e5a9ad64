"""The grammar that xgrammar makes of a JSON Schema, as text, with its rules for strings replaced by sound ones.

xgrammar prints a grammar as EBNF that it reads back to the same grammar, but for the digits behind a ``\\x``. Between
the two: escapes do not make lone surrogates, nor spell the name of a listed member among the additional ones; strings
whose characters are counted have no raw control characters; the patterns that stand for automata become their rules.
"""

import re
from collections.abc import Mapping
from typing import Final

from structout.spec import Escapes
from structout_xgrammar.automaton import Automaton
from structout_xgrammar.ebnf import json_rules

_ESCAPE: Final = re.compile(r"^(basic_escape(?:_\d+)?) ::= .*$", re.MULTILINE)
_STRING: Final = re.compile(r"^(basic_string_sub(?:_\d+)?) ::= .*$", re.MULTILINE)
_COUNTED: Final = re.compile(r"^(\S+_characters(?:_\d+)?) ::= \(\(\[\^\\\"\\\\\\r\\n\]\)\)$", re.MULTILINE)
_OTHER_NAME: Final = re.compile(r"^\S+_addl_key(?:_\d+)* ::= .*$", re.MULTILINE)
_AUTOMATON: Final = re.compile(r'^(\S+) ::= Regex\("(automaton\d+)", json_string=true\)$', re.MULTILINE)

_PRINTED_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-f]{2})|.)")

_XGRAMMARS_ESCAPE: Final = r'(([\"\\/bfnrt]) | ("u" [A-Fa-f0-9] [A-Fa-f0-9] [A-Fa-f0-9] [A-Fa-f0-9]))'
_XGRAMMARS_CHARACTER: Final = r"[^\0-\u001f\"\\\r\n"
_CHARACTER: Final = r"[^\0-\u001f\"\\\ud800-\udfff"

_HEX: Final = "[0-9A-Fa-f]"
_CONTROL: Final = f'"u00" [01] {_HEX}'
_MINIMAL_ESCAPE: Final = rf"[\"\\bfnrt] | {_CONTROL}"
_ANY_ESCAPE: Final = (
    rf'[\"\\/bfnrt] | "u" [0-9A-Ca-cEFef] {_HEX} {_HEX} {_HEX} | "u" [Dd] [0-7] {_HEX} {_HEX}'
    rf' | "u" [Dd] [89ABab] {_HEX} {_HEX} "\\u" [Dd] [C-Fc-f] {_HEX} {_HEX}'
)

_NAME_RULES: Final = rf"""
name_escape ::= {_MINIMAL_ESCAPE}
name_rest ::= "\"" | {_CHARACTER}] name_rest | "\\" name_escape name_rest
"""


class UnknownGrammar(Exception):
    """A printed grammar in which the rules that have to be replaced are not where they were."""


def link(grammar: str, automata: Mapping[str, Automaton], escapes: Escapes) -> str:
    """The sound form of a grammar that xgrammar has printed.

    Raises:
        UnknownGrammar: it does not look as xgrammar 0.2 prints it.
    """
    grammar = _PRINTED_ESCAPE.sub(_with_four_digits, grammar)
    _check_strings(grammar)
    escape = _MINIMAL_ESCAPE if escapes is Escapes.MINIMAL else _ANY_ESCAPE
    grammar = _ESCAPE.sub(lambda rule: f"{rule[1]} ::= {escape}", grammar)
    grammar = _STRING.sub(lambda rule: rule[0].replace(_XGRAMMARS_CHARACTER, _CHARACTER), grammar)
    grammar = _COUNTED.sub(lambda rule: f"{rule[1]} ::= {_CHARACTER}]", grammar)
    if _OTHER_NAME.search(grammar):
        grammar = _OTHER_NAME.sub(_other_name, grammar) + _NAME_RULES
    return _with_automata(grammar, automata)


def _with_four_digits(escape: re.Match[str]) -> str:
    """``\\xe9`` as ``\\u00e9``. xgrammar prints two digits behind ``\\x``, and reads as many as there are."""
    return rf"\u00{escape[1]}" if escape[1] else escape[0]


def _check_strings(grammar: str) -> None:
    escapes, strings = list(_ESCAPE.finditer(grammar)), list(_STRING.finditer(grammar))
    known = all(rule[0] == f"{rule[1]} ::= {_XGRAMMARS_ESCAPE}" for rule in escapes)
    if not known or len(escapes) != len(strings) or any(_XGRAMMARS_CHARACTER not in rule[0] for rule in strings):
        raise UnknownGrammar("xgrammar's rules for strings are not those that are known")


def _other_name(rule: re.Match[str]) -> str:
    """A rule for the name of an additional member, in which escapes do not spell characters that need none."""
    body = re.sub(r"\bbasic_string_sub(_\d+)?\b", "name_rest", rule[0])
    return re.sub(r"\bbasic_escape(_\d+)?\b", "name_escape", body).replace(_XGRAMMARS_CHARACTER, _CHARACTER)


def _with_automata(grammar: str, automata: Mapping[str, Automaton]) -> str:
    """The grammar with automata's rules in place of the patterns for them. Those rules end with the closing quote."""
    used = dict(_AUTOMATON.findall(grammar))
    if grammar.count('Regex("automaton') != len(used):
        raise UnknownGrammar("xgrammar's rules for patterns are not those that are known")
    if not used:
        return grammar
    names = "|".join(map(re.escape, used))
    grammar = re.sub(rf'(?<=[ (])({names}) "\\""', lambda found: used[found[1]], _AUTOMATON.sub("", grammar))
    return "\n".join([grammar, *(json_rules(automata[name], name) for name in sorted(set(used.values())))])
