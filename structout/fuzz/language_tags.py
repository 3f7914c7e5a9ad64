"""Random structural tags without free text, each with the languages that it stands for."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from structout.fuzz.choices import Choices
from structout.fuzz.json_text import write
from structout.fuzz.language_nodes import Alt, CharClass, Literal, Node, Repeat, Seq
from structout.fuzz.language_text import to_regex
from structout.fuzz.language_trees import Trees, text

WEIGHTS: Final = ((4, "const_string"), (3, "regex"), (3, "tag"), (3, "sequence"), (2, "or"))
"""How often each format comes up; at the innermost level there are no sequences and alternatives."""
CONTENTS: Final = ((3, "json_schema"), (2, "regex"))
"""What is in a tag."""


@attrs.frozen
class Tag:
    """A format of a structural tag.

    Attributes:
        format: JSON-able.
        plain: texts that it allows, JSON written in the plainest way.
        wide: all that it could be said to allow: JSON in any way of writing, and more.
    """

    format: dict[str, Any]
    plain: Node
    wide: Node


_BLANK: Final = Repeat(CharClass(((" ", " "), ("\t", "\t"), ("\n", "\n"), ("\r", "\r"))), 0, None)
_FROM_1: Final = Seq((CharClass((("1", "9"),)), Repeat(CharClass((("0", "9"),)), 0, None)))
_INTEGER: Final = Alt((Literal("0"), _FROM_1, Seq((Literal("-"), _FROM_1))))
_LIKE_A_NUMBER: Final = Repeat(
    CharClass((("0", "9"), ("+", "+"), ("-", "-"), (".", "."), ("e", "e"), ("E", "E"))), 1, None
)
_ANY_TEXT: Final = Repeat(CharClass((("\0", "\U0010ffff"),)), 0, None)
_ESCAPING: Final = Seq((Literal('"'), _ANY_TEXT, Literal("\\"), _ANY_TEXT, Literal('"')))


def tag(choices: Choices, depth: int = 3) -> Tag:
    """A format of at most so many levels."""
    kinds = [(weight, kind) for weight, kind in WEIGHTS if depth > 1 or kind not in ("sequence", "or")]
    match choices.weighted(kinds):
        case "const_string":
            value = text(choices, 1, 4)
            return Tag({"type": "const_string", "value": value}, Literal(value), Literal(value))
        case "regex":
            return _regex(choices)
        case "tag":
            return _around(choices)
        case "sequence":
            return _joined("sequence", _several(choices, depth), Seq)
        case _:
            return _joined("or", _several(choices, depth), Alt)


def _several(choices: Choices, depth: int) -> list[Tag]:
    return [choices.part(lambda: tag(choices, depth - 1)) for _ in range(choices.between(1, 3))]


def _joined(kind: str, parts: Sequence[Tag], join: Callable[[tuple[Node, ...]], Node]) -> Tag:
    plain, wide = (join(tuple(nodes)) for nodes in ([part.plain for part in parts], [part.wide for part in parts]))
    return Tag({"type": kind, "elements": [part.format for part in parts]}, plain, wide)


def _regex(choices: Choices) -> Tag:
    node = Trees(choices, dots=True).tree(2)
    return Tag({"type": "regex", "pattern": to_regex(node)}, node, node)


def _around(choices: Choices) -> Tag:
    """What xgrammar calls a tag: something between a beginning and an end."""
    begin, end = (text(choices, 2, 4) for _ in range(2))
    inside = _regex(choices) if choices.weighted(CONTENTS) == "regex" else _json(choices)
    plain, wide = (Seq((Literal(begin), node, Literal(end))) for node in (inside.plain, inside.wide))
    return Tag({"type": "tag", "begin": begin, "content": inside.format, "end": end}, plain, wide)


def _json(choices: Choices) -> Tag:
    schema, plain, wide = choices.pick((_boolean, _integer, _const, _enum))(choices)
    return Tag({"type": "json_schema", "json_schema": schema}, plain, Seq((_BLANK, wide, _BLANK)))


Json = tuple[dict[str, Any], Node, Node]


def _boolean(_choices: Choices) -> Json:
    either = Alt((Literal("true"), Literal("false")))
    return {"type": "boolean"}, either, either


def _integer(_choices: Choices) -> Json:
    return {"type": "integer"}, _INTEGER, _LIKE_A_NUMBER


def _const(choices: Choices) -> Json:
    value = _scalar(choices)
    return {"const": value}, Literal(write(value)), _like(value)


def _enum(choices: Choices) -> Json:
    values = list(dict.fromkeys(_scalar(choices) for _ in range(choices.between(1, 3))))
    return {"enum": values}, Alt(tuple(Literal(write(value)) for value in values)), Alt(tuple(map(_like, values)))


def _scalar(choices: Choices) -> str | int | None:
    return choices.pick((text(choices), choices.between(0, 120), None))


def _like(value: str | int | None) -> Node:
    """What could be read as this value: a string as it is, or any with a backslash in it."""
    if isinstance(value, int):
        return _LIKE_A_NUMBER
    plain = Literal(write(value))
    return Alt((plain, _ESCAPING)) if isinstance(value, str) else plain
