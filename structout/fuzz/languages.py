"""Hypothesis strategies for cases that are no JSON Schema: regular expressions, EBNF, choices and structural tags.

What is generated is a small tree (`structout.fuzz.language_trees` states the weights); the spec is written from it, the
members are derived from it, and the strangers are members with small edits that it does not have.
"""

import json
from collections.abc import Callable, Iterator
from typing import Final

import hypothesis.strategies as st
from hypothesis.strategies import SearchStrategy

from structout.fuzz.case import Case, Text
from structout.fuzz.choices import Choices, Drawn
from structout.fuzz.language_nodes import Alt, Language, Literal, Node, RuleRef
from structout.fuzz.language_tags import tag
from structout.fuzz.language_text import to_gbnf, to_regex
from structout.fuzz.language_trees import Trees, edited, text
from structout.spec import Choice, Ebnf, GrammarSpec, Regex, StructuralTag

MEMBERS: Final = 4
STRANGERS: Final = 6
_LONGEST: Final = 60
"""Characters in a text. Longer ones show nothing more, and are slow to judge."""
_RULES: Final = ("root", "a", "b", "long-name")


def regex_cases() -> SearchStrategy[Case]:
    """Regular expressions in the syntax that all dialects share: literals with their escapes, classes and negated
    classes, the dot, groups, options, repetitions; now and then with anchors, or with groups that capture."""
    return _cases(regex_case)


def ebnf_cases() -> SearchStrategy[Case]:
    """GBNF of up to four rules, which refer to each other and, also at their beginning, to themselves."""
    return _cases(ebnf_case)


def choice_cases() -> SearchStrategy[Case]:
    """Up to seven options: empty ones, beginnings of others, with quotes, signs of regular expressions, line feeds."""
    return _cases(choice_case)


def tag_cases() -> SearchStrategy[Case]:
    """Structural tags without free text: texts, regular expressions, tags, in sequences and as alternatives."""
    return _cases(tag_case)


def _cases(make: Callable[[Choices], Case]) -> SearchStrategy[Case]:
    @st.composite
    def drawn(draw: st.DrawFn) -> Case:
        return make(Drawn(draw))

    return drawn()


def regex_case(choices: Choices) -> Case:
    node = Trees(choices, dots=True).tree()
    pattern = to_regex(node, capture=choices.one_in(3))
    if choices.one_in(5) and not isinstance(node, Alt):
        pattern = f"^{pattern}$"
    return _case(choices, Regex(pattern), Language(node))


def ebnf_case(choices: Choices) -> Case:
    names = _RULES[: choices.between(1, len(_RULES))]
    rules = {name: _rule(choices, names, index) for index, name in enumerate(names)}
    return _case(choices, Ebnf(to_gbnf(rules)), Language(RuleRef("root"), rules))


def _rule(choices: Choices, names: tuple[str, ...], index: int) -> Node:
    """A rule that has a text: it refers to later ones, and to any only as an alternative to that."""
    finite = Trees(choices, names[index + 1 :]).tree()
    return Alt((finite, Trees(choices, names).tree())) if choices.one_in(2) else finite


def choice_case(choices: Choices) -> Case:
    options = [text(choices, 0, 4) for _ in range(choices.between(1, 4))]
    near = [option + text(choices) if choices.one_in(2) else option[:-1] for option in options[: choices.below(4)]]
    distinct = tuple(dict.fromkeys([*options, *near]))
    return _case(choices, Choice(distinct), Language(Alt(tuple(map(Literal, distinct)))))


def tag_case(choices: Choices) -> Case:
    made = tag(choices)
    spec = StructuralTag(json.dumps({"type": "structural_tag", "format": made.format}, ensure_ascii=False))
    return _case(choices, spec, Language(made.plain), Language(made.wide))


def _case(choices: Choices, spec: GrammarSpec, language: Language, wide: Language | None = None) -> Case:
    """A case with members of ``language``, and strangers that are not of ``wide``, which is no smaller."""
    members = list(_members(choices, language))
    strangers = list(_strangers(choices, members, wide or language))
    return Case(
        spec,
        tuple(Text(member, "plain") for member in members),
        tuple(Text(stranger, "syntax") for stranger in strangers),
        seed=choices.below(2**32),
    )


def _members(choices: Choices, language: Language) -> Iterator[str]:
    derived = (language.derive(choices) for _ in range(choices.between(1, MEMBERS)))
    return (member for member in dict.fromkeys(derived) if len(member) <= _LONGEST)


def _strangers(choices: Choices, members: list[str], language: Language) -> Iterator[str]:
    made = (edited(choices, choices.pick(members or [""])) for _ in range(choices.between(1, STRANGERS)))
    return (stranger for stranger in dict.fromkeys(made) if not language.has(stranger))
