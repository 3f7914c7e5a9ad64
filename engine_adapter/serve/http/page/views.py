"""What the page is told, as JSON objects. Texts in it are what clients and tokenizers wrote: to be shown as text."""

from typing import Any, Final

import attrs

from engine_adapter.serve.ends import Failure
from engine_adapter.serve.http.page.tokens import TokenTable
from engine_adapter.serve.http.page.walk import Walk
from engine_adapter.serve.running import RunningEngine
from structout.errors import GrammarError
from structout.grammar import Grammar
from structout.result import Err

MOST_TOKENS: Final = 100
"""How many of the tokens that may follow are shown, and how many of the last that were taken."""

MOST_REQUESTS: Final = 100
"""How many of the requests under way are shown: those that came first."""

JsonObject = dict[str, Any]


def requests_view(running: RunningEngine) -> JsonObject:
    """How requests stand: counts by state, those under way, how many have ended, and the last failures."""
    under_way = running.under_way()
    counts = dict.fromkeys(("blocked", "waiting", "prefilling", "decoding"), 0)
    for each in under_way:
        counts[each.state] = counts.get(each.state, 0) + 1
    return {
        "unavailable": None if running.unavailable is None else running.unavailable.to_json(),
        "counts": counts,
        "under_way": [attrs.asdict(each) for each in under_way[:MOST_REQUESTS]],
        "ended": running.ends.counts(),
        "failures": [_failure_view(each) for each in running.ends.failures()],
    }


def _failure_view(failure: Failure) -> JsonObject:
    return {"request_id": failure.request_id, "at": failure.at, "error": failure.error.to_json()}


def error_view(error: GrammarError) -> JsonObject:
    return {"error": error.to_json()}


def grammar_view(grammar: Grammar) -> JsonObject:
    """Who enforces a constraint, and where it is not exactly what was asked for."""
    return {
        "backend": grammar.backend.id,
        "distribution": grammar.backend.distribution,
        "is_risky": grammar.is_risky,
        "unenforced": [attrs.asdict(each) for each in grammar.unenforced],
        "narrowed": [attrs.asdict(each) for each in grammar.narrowed],
    }


def walk_view(walk: Walk, table: TokenTable, search: str) -> JsonObject:
    """Where a walk stands: its text, and the tokens that may follow and have ``search`` in them. Asks the backend.

    ``problem`` is why it cannot go on, if it cannot.
    """
    allowed = walk.allowed()
    return {
        "text": walk.text.decode("utf-8", "replace"),
        "length": len(walk.tokens),
        "tokens": [attrs.asdict(table.shown(token)) for token in walk.tokens[-MOST_TOKENS:]],
        "is_complete": walk.is_complete,
        "is_ended": walk.is_ended,
        "can_go_back": walk.can_go_back,
        **_allowed_view([] if isinstance(allowed, Err) else allowed.value.tolist(), table, search),
        "problem": allowed.error.to_json() if isinstance(allowed, Err) else None,
    }


def _allowed_view(allowed: list[int], table: TokenTable, search: str) -> JsonObject:
    found = table.found(allowed, search)
    shown = [attrs.asdict(table.shown(token)) for token in found[:MOST_TOKENS]]
    return {"allowed": {"count": len(allowed), "found": len(found), "shown": shown}}
