"""How deep a text nests, found by one scan and no recursion, before anything that recurses gets to see it."""

import enum
import re

# Texts in which brackets do not nest. Each ends at the end of the text if it is never closed, and backtracks nowhere.
_STRING = r'"(?:[^"\\]|\\.)*+"?'
_CLASS = r"\[(?:[^\]\\]|\\.)*+\]?"
# In a regex, "]" right at the start of a class belongs to it.
_REGEX_CLASS = r"\[\^?\]?(?:[^\]\\]|\\.)*+\]?"
_LARK_REGEX = r"/(?:[^/\\\n]|\\.)*+/?"


def _syntax(opaque: str, opening: str, closing: str) -> re.Pattern[str]:
    return re.compile(f"(?:{opaque})|(?P<open>[{opening}])|(?P<close>[{closing}])", re.DOTALL)


class Syntax(enum.Enum):
    """The languages of texts, each as the pattern of what opens, what closes, and what has to be skipped."""

    JSON = _syntax(_STRING, r"\[{", r"\]}")
    REGEX = _syntax(rf"\\.|{_REGEX_CLASS}", "(", ")")
    EBNF = _syntax(rf"{_STRING}|{_CLASS}|#[^\n]*", "(", ")")
    LARK = _syntax(rf"{_STRING}|//[^\n]*|#[^\n]*|{_LARK_REGEX}", r"(\[{", r")\]}")


def nesting(text: str, syntax: Syntax) -> int:
    """The largest number of groups that are open at the same time; right for well-formed text, some number for other.

    In time linear in the text.
    """
    depth = deepest = 0
    for token in syntax.value.finditer(text):
        if token.lastgroup == "open":
            depth += 1
            deepest = max(deepest, depth)
        elif token.lastgroup == "close":
            depth = max(depth - 1, 0)
    return deepest
