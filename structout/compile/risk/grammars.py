"""Grammars in GBNF and in Lark's syntax, measured by one scan of their text and one pass over their rules."""

import re
from collections.abc import Sequence
from typing import Final

from structout.compile.risk.bounds import Bounds
from structout.compile.risk.graph import inner_first
from structout.compile.risk.measures import CAP, Measure, Measures, text_bytes
from structout.compile.risk.patterns import CLASS, QUANTIFIER, Scanner, add_regex

_STRING: Final = r'"(?:[^"\\\n]|\\.)*+"?'
_GROUPS: Final = r"(?P<open>\()|(?P<close>\))|(?P<bar>\|)"

EBNF: Final = re.compile(
    rf"(?P<skip>\s++|\#[^\n]*+)|(?P<head>[\w.-]++\s*+::=)|(?P<name>[\w.-]++)|(?P<string>{_STRING})"
    rf"|{QUANTIFIER}|(?P<wide>{CLASS})|{_GROUPS}|(?P<other>.)",
    re.DOTALL,
)
# A range counts as a repetition: ``~ 3..5``. What is in square brackets is optional, and counts as a group.
LARK: Final = re.compile(
    rf"(?P<skip>\s++|//[^\n]*+|\#[^\n]*+)|(?P<head>[\w.-]++\s*+:)|(?P<name>[\w.-]++)|(?P<string>{_STRING})"
    rf"|(?P<regex>/(?:[^/\\\n]|\\.)++/?)|(?P<times>~\s*+(?P<from>\d++)(?:\s*+\.\.\s*+(?P<to>\d++))?)"
    rf"|{QUANTIFIER}|(?P<open>[(\[])|(?P<close>[)\]])|(?P<bar>\|)|(?P<other>.)",
    re.DOTALL,
)


class _Rule:
    """One rule: what its right-hand sides come to together, and the names in them."""

    __slots__ = ("depth", "names", "optional", "positions", "repetition", "scanner")

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.scanner = Scanner()
        self.positions = self.optional = self.depth = 0
        self.repetition = 1

    def end(self) -> None:
        """Ends a right-hand side; another one may follow."""
        extent, self.scanner = self.scanner.end(), Scanner()
        self.positions += extent.positions
        self.optional += extent.optional
        self.repetition = max(self.repetition, extent.repetition)
        self.depth = max(self.depth, extent.depth)


def add_grammar(measures: Measures, text: str, bounds: Bounds, *, lark: bool = False) -> None:
    """Adds a grammar to what was measured. Never raises; beyond the hard bound of bytes it is not read."""
    measures[Measure.GRAMMAR_BYTES] += text_bytes(text)
    if measures[Measure.GRAMMAR_BYTES] > bounds[Measure.GRAMMAR_BYTES].hard:
        return
    rules = _rules(measures, text, bounds, LARK if lark else EBNF)
    measures[Measure.RULES] += len(rules)
    measures[Measure.GRAMMAR_DEPTH] = max(measures[Measure.GRAMMAR_DEPTH], *(rule.depth for rule in rules.values()))
    measures[Measure.GRAMMAR_POSITIONS] += sum(rule.positions for rule in rules.values())
    measures[Measure.GRAMMAR_OPTIONAL] += sum(rule.optional for rule in rules.values())
    chain, repetition = _longest(list(rules), list(rules.values()))
    measures[Measure.RULE_CHAIN] = max(measures[Measure.RULE_CHAIN], chain)
    if repetition > 1:
        measures[Measure.GRAMMAR_REPETITION] = max(measures[Measure.GRAMMAR_REPETITION], repetition)


def _rules(measures: Measures, text: str, bounds: Bounds, syntax: re.Pattern[str]) -> dict[str, _Rule]:
    """The rules of a grammar by name; what stands before the first is a rule without a name."""
    rule = _Rule()
    rules = {"": rule}
    for match in syntax.finditer(text):
        match match.lastgroup:
            case "skip":
                continue
            case "head":
                rule.end()
                rule = rules.setdefault(match[0].rstrip(": \t\r\n="), _Rule())
                continue
            case "name":
                rule.names[match[0]] = None
            case "regex":
                add_regex(measures, match[0].strip("/"), bounds)
        rule.scanner.token(match)
    rule.end()
    return rules


def _longest(names: Sequence[str], rules: Sequence[_Rule]) -> tuple[int, int]:
    """The most rules that lead to one another, and the largest product of their repetitions.

    All rules that get into a circle count as one chain, and the repetitions of those in one as if it were gone round
    twice.
    """
    index = {name: number for number, name in enumerate(names)}
    leads_to = [[index[name] for name in rule.names if name in index] for rule in rules]
    order = inner_first(leads_to)
    chains, products = [0] * len(rules), [rule.repetition for rule in rules]
    for node in order.inner:
        chains[node] = 1 + max((chains[inner] for inner in leads_to[node]), default=0)
    for node in [*order.inner, *order.circular, *order.circular, *order.outer]:
        inside = max((products[inner] for inner in leads_to[node]), default=1)
        products[node] = min(rules[node].repetition * inside, CAP)
    return len(order.circular) + len(order.outer) + max(chains), max(products)
