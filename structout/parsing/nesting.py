"""How deep a text nests, found by one scan and no recursion, before anything that recurses gets to see it."""

import enum
import re

# Texts in which brackets do not nest. Each ends at the end of the text if it is never closed, and backtracks nowhere.
_STRING = r'"(?:[^"\\]|\\.)*+"?'
_CLASS = r"\[(?:[^\]\\]|\\.)*+\]?"
# In a regex, "]" right at the start of a class belongs to it.
_REGEX_CLASS = r"\[\^?\]?(?:[^\]\\]|\\.)*+\]?"
_LARK_REGEX = r"/(?:[^/\\\n]|\\.)*+/?"


class Syntax(enum.Enum):
    """The languages of texts, each by what has to be skipped, what opens and what closes.

    Attributes:
        opening: the characters that open a group.
        pattern: of all three.
    """

    JSON = (_STRING, "[{", "]}")
    REGEX = (rf"\\.|{_REGEX_CLASS}", "(", ")")
    EBNF = (rf"{_STRING}|{_CLASS}|#[^\n]*", "(", ")")
    LARK = (rf"{_STRING}|//[^\n]*|#[^\n]*|{_LARK_REGEX}", "([{", ")]}")

    def __init__(self, opaque: str, opening: str, closing: str) -> None:
        self.opening = opening
        self.pattern = re.compile(
            f"(?:{opaque})|(?P<open>[{re.escape(opening)}])|(?P<close>[{re.escape(closing)}])", re.DOTALL
        )


def nesting(text: str, syntax: Syntax) -> int:
    """The largest number of groups that are open at the same time; right for well-formed text, some number for other.

    In time linear in the text.
    """
    depth = deepest = 0
    for token in syntax.pattern.finditer(text):
        if token.lastgroup == "open":
            depth += 1
            deepest = max(deepest, depth)
        elif token.lastgroup == "close":
            depth = max(depth - 1, 0)
    return deepest


def nesting_above(limit: int, text: str, syntax: Syntax) -> int | None:
    """`nesting` where it is more than ``limit``, else None: most texts do not open so many groups, and need no scan."""
    if sum(map(text.count, syntax.opening)) <= limit:
        return None
    depth = nesting(text, syntax)
    return depth if depth > limit else None
