"""What xgrammar does not enforce of grammars in EBNF and Lark's syntax, found without compiling them."""

import re
from typing import Final

from structout.backend import Finding
from structout.result import Err, Ok
from structout_xgrammar.patterns import Anchor, Choice, Repeat, Sequence, Tree, read

_EBNF_TOKEN: Final = re.compile(
    r'"(?P<literal>(?:\\.|[^"\\\n])*)"'
    r"|\[(?P<class>(?:\\.|[^\]\\\n])*)\]"
    r"|\#[^\n]*"
    r"|(?P<lookahead>\(\s*=)"
    r"|(?P<budget>\bmax_(?:tokens|chars)\b)"
)
_LARK_TOKEN: Final = re.compile(
    r'"(?:\\.|[^"\\\n])*"'
    r"|//[^\n]*|\#[^\n]*"
    r"|/(?P<regex>(?:\\.|[^/\\\n])+)/"
    r"|(?P<budget>\bmax_(?:tokens|chars)\b)"
    r"|(?P<json>%json\b)"
)
_LONG_CODE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\x[0-9a-fA-F]{3}")
"""``\\x`` has two digits, but xgrammar reads as many as there are."""


def ebnf_findings(grammar: str) -> list[Finding]:
    """What is not enforced of a grammar in EBNF."""
    return _findings(_EBNF_TOKEN, grammar, "ebnf")


def lark_findings(grammar: str) -> list[Finding]:
    """What is not enforced of a grammar in Lark's syntax."""
    return _findings(_LARK_TOKEN, grammar, "lark")


def _findings(token: re.Pattern[str], grammar: str, keyword: str) -> list[Finding]:
    found = []
    for match in token.finditer(grammar):
        if reason := _reason(match):
            line = grammar.count("\n", 0, match.start()) + 1
            found.append(Finding("", keyword, f"{reason} (line {line})"))
    return found


def _reason(token: re.Match[str]) -> str | None:
    match token.lastgroup:
        case "lookahead":
            return "has a lookahead, which is a hint only"
        case "budget":
            return "has a budget, which is exceeded where the rule cannot end"
        case "json":
            return "holds a JSON Schema, of which not all is enforced"
        case "regex":
            return _regex_reason(token["regex"])
        case "literal" | "class" as name if _LONG_CODE.search(token[name]):
            return r"has a \x with a hexadecimal digit behind its two, which is read as one code"
        case _:
            return None


def _regex_reason(pattern: str) -> str | None:
    if _LONG_CODE.search(pattern):
        return r"has a \x with a hexadecimal digit behind its two, which is read as one code"
    match read(pattern):
        case Ok(tree) if _has_anchor(tree):
            return "has a regular expression with an anchor, which is ignored"
        case Err(fault):
            return f"has a regular expression that is not supported: {fault.message}"
        case _:
            return None


def _has_anchor(tree: Tree) -> bool:
    match tree:
        case Anchor():
            return True
        case Sequence(parts) | Choice(parts):
            return any(map(_has_anchor, parts))
        case Repeat(part):
            return _has_anchor(part)
        case _:
            return False
