"""Selection: which backends are tried for a spec, in which order, and what is said when none is."""

from collections.abc import Callable, Mapping, Sequence

import attrs
import pytest

from structout import BackendInfo, Choice, Err, ErrorKind, Fault, GrammarError, Ok, Regex, hookimpl
from structout.discovery import Registry, discover
from structout.selection import DEFAULT_ORDER, rank, select
from structout.spec import GrammarSpec
from tests.fakes import TriePlugin, trie_info

SPEC = Choice(("a",))


def refusing(id: str, **fields: str) -> BackendInfo:
    error = GrammarError(kind=ErrorKind.UNSUPPORTED, message="'not' is ignored", pointer="/not", keyword="not")
    return attrs.evolve(trie_info(id), refusal=lambda spec: error)


class Prefers(TriePlugin):
    def __init__(self, weights: Mapping[str, float], forbidden: Mapping[str, str] | None = None) -> None:
        super().__init__(trie_info("extra"))
        self.weights, self.forbidden = weights, forbidden

    @hookimpl
    def structout_prefer_backends(self, spec: GrammarSpec, candidates: Sequence[BackendInfo]) -> Mapping[str, float]:
        return self.weights

    @hookimpl
    def structout_forbid_backends(
        self, spec: GrammarSpec, candidates: Sequence[BackendInfo]
    ) -> Mapping[str, str] | None:
        return self.forbidden


def registry(*infos: BackendInfo, votes: object = None) -> Registry:
    plugins: dict[str, object] = {"test": TriePlugin(*infos)}
    return discover(plugins=plugins | ({"votes": votes} if votes else {}), entry_points=[], disable=[])


def order(registry: Registry, spec: GrammarSpec = SPEC) -> list[str]:
    return [each.info.id for each in select(spec, registry).unwrap().candidates]


def error(registry: Registry, backend: str | None = None, spec: GrammarSpec = SPEC) -> GrammarError:
    result = select(spec, registry, backend=backend)
    assert isinstance(result, Err)
    return result.error


def test_the_default_order_comes_first_then_ids() -> None:
    infos = [trie_info(id) for id in ("zeta", *reversed(DEFAULT_ORDER), "alpha")]
    assert order(registry(*infos)) == [*DEFAULT_ORDER, "alpha", "zeta"]


def test_weights_go_before_the_default_order() -> None:
    votes = Prefers({"b": 1.0, "xgrammar": -1.0})
    assert order(registry(*map(trie_info, ("a", "b", "xgrammar")), votes=votes)) == ["b", "a", "extra", "xgrammar"]


def test_putting_backends_in_order_asks_none_of_them() -> None:
    votes = Prefers({"b": 1.0}, {"a": "it is under maintenance"})
    infos = [attrs.evolve(trie_info(id), refusal=raises) for id in ("a", "b", "c")]
    ranking = rank(SPEC, registry(*infos, votes=votes)).unwrap()
    assert [each.info.id for each in ranking.candidates] == ["b", "c", "extra"]
    assert [(error.backend, error.kind) for error in ranking.refusals] == [("a", ErrorKind.UNAVAILABLE)]


def test_those_that_refuse_are_left_out_and_say_why() -> None:
    selection = select(SPEC, registry(trie_info("able"), refusing("unable"))).unwrap()
    assert [each.info.id for each in selection.candidates] == ["able"]
    assert [(each.backend, each.keyword, each.pointer) for each in selection.refusals] == [("unable", "not", "/not")]


def test_nobody_takes_it_names_everybody_and_the_place() -> None:
    found = error(registry(refusing("one"), refusing("two")))
    assert found.kind is ErrorKind.UNSUPPORTED
    assert (found.keyword, found.pointer) == ("not", "/not")
    assert "one: 'not' is ignored" in found.message
    assert "two: 'not' is ignored" in found.message


def test_a_verdict_that_may_change_is_none_for_a_cache() -> None:
    votes = Prefers({}, {"two": "it is under maintenance", "extra": "so is this"})
    found = error(registry(refusing("one"), trie_info("two"), votes=votes))
    assert (found.kind, found.fault, found.consequence.cacheable) == (ErrorKind.UNAVAILABLE, Fault.CALLER, False)
    found = error(registry(refusing("one"), attrs.evolve(trie_info("two"), refusal=raises)))
    assert (found.kind, found.fault, found.keyword) == (ErrorKind.BACKEND_FAILURE, Fault.SERVICE, "not")


def test_a_named_backend_that_refuses_says_who_could() -> None:
    found = error(registry(refusing("one"), trie_info("two"), trie_info("three")), "one")
    assert (found.backend, found.candidates) == ("one", ("three", "two"))
    assert found.hint == "leave the backend out, or name three or two"


def test_a_backend_that_is_not_there_is_the_callers_fault() -> None:
    found = error(registry(trie_info("one")), "nowhere")
    assert (found.kind, found.consequence.http_status) == (ErrorKind.UNAVAILABLE, 400)


def test_no_backend_at_all_is_ours() -> None:
    found = error(discover(plugins={}, entry_points=[], disable=[]))
    assert (found.kind, found.fault) == (ErrorKind.UNAVAILABLE, Fault.SERVICE)
    assert "pip install" in (found.hint or "")


def test_what_a_plugin_forbids_is_refused_also_by_name() -> None:
    votes = Prefers({}, {"one": "it is under maintenance"})
    forbidden = registry(trie_info("one"), trie_info("two"), votes=votes)
    assert order(forbidden) == ["extra", "two"]
    assert "it is under maintenance" in error(forbidden, "one").message


def test_a_kind_that_nobody_has() -> None:
    assert error(registry(trie_info("one")), spec=Regex("a")).kind is ErrorKind.UNSUPPORTED


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise self


def raises(spec: GrammarSpec) -> GrammarError | None:
    raise RecursionError("secret")


def raises_unspeakably(spec: GrammarSpec) -> GrammarError | None:
    raise Unspeakable


@pytest.mark.parametrize("refusal", [raises, raises_unspeakably])
def test_a_check_that_raises_costs_its_backend_only(refusal: Callable[[GrammarSpec], GrammarError | None]) -> None:
    broken = attrs.evolve(trie_info("broken"), refusal=refusal)
    selection = select(SPEC, registry(broken, trie_info("able"))).unwrap()
    assert [each.info.id for each in selection.candidates] == ["able"]
    assert selection.refusals[0].kind is ErrorKind.BACKEND_FAILURE
    assert "secret" not in selection.refusals[0].message


@pytest.mark.parametrize("backend", [None, "able"])
def test_a_selection_can_be_printed(backend: str | None) -> None:
    result = select(SPEC, registry(trie_info("able")), backend=backend)
    assert isinstance(result, Ok)
    assert "able" in repr(result.value)


def test_a_backend_by_name_only_is_no_candidate_unless_it_is_named() -> None:
    judge = attrs.evolve(trie_info("judge"), by_name_only=True)
    both = registry(judge, trie_info("serving"))
    assert order(both) == ["serving"]
    assert [each.info.id for each in select(SPEC, both, backend="judge").unwrap().candidates] == ["judge"]
    assert error(registry(judge)).kind is ErrorKind.UNAVAILABLE
    assert error(registry(judge, refusing("serving")), backend="serving").candidates == ()
