"""Schemas to test on: every keyword, with values of the right shape and of any other."""

import functools
from typing import Any, TypeAlias

from hypothesis import strategies as st

from structout.schema.keywords import KEYWORDS, Holds, Keyword
from structout.spec import Dialect

Json: TypeAlias = Any

_NAMES = st.sampled_from(["a", "b", "a/b", "~", "", "0", "é", "not", "type"])
_REFERENCES = st.sampled_from(
    ["#", "#/$defs/a", "#/definitions/a", "#/properties/b", "#/unknown/a", "#a", "other", "#/%7E0", "http://["]
)
_SCALARS: st.SearchStrategy[Json] = st.sampled_from(
    [None, 0, -1, 2.5, 10**30, "", "a", "#a", "(", "string", "http://x/y"]
)


@functools.cache
def schemas(dialect: Dialect = Dialect.DRAFT_2020_12, depth: int = 3) -> st.SearchStrategy[Json]:
    """Schemas of a dialect as `json.loads` makes them, trees: also of keywords whose values make no sense."""
    if depth == 0:
        return st.booleans()
    inner = schemas(dialect, depth - 1)
    values = {word.name: _values(word, inner) for word in KEYWORDS[dialect].values()}
    values["unknown"] = st.dictionaries(_NAMES, inner, max_size=2)
    chosen = st.lists(st.sampled_from(list(values)), max_size=4, unique=True)
    return st.booleans() | chosen.flatmap(lambda names: st.fixed_dictionaries({name: values[name] for name in names}))


def _values(word: Keyword, inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    in_list, in_map = st.lists(inner, max_size=3), st.dictionaries(_NAMES, inner, max_size=3)
    if word.name.endswith(("Ref", "$ref")):
        return _REFERENCES
    shaped: dict[Holds, st.SearchStrategy[Json]] = {Holds.LIST: in_list, Holds.MAP: in_map}
    return shaped.get(word.holds, inner) | _SCALARS | in_list | in_map
