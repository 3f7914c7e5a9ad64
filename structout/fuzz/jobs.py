"""What a worker can be asked, on one backend: everything goes in and comes out as JSON-able data."""

import random
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
import numpy as np

from structout.backend import Status
from structout.fuzz.case import Case
from structout.fuzz.examine import examine
from structout.fuzz.law import Law
from structout.fuzz.probe import Bits, Probed, unpack
from structout.fuzz.tokenizations import as_bytes
from structout.fuzz.trial import trial_of
from structout.grammar import BoundBackend, Grammar
from structout.result import Err, Ok
from structout.spec import spec_from_json


def _examine(bound: BoundBackend, data: Mapping[str, Any]) -> dict[str, Any]:
    """A `structout.fuzz.examine.Report` on a case."""
    laws = [Law(law) for law in data["laws"]]
    return examine(bound, Case.from_json(data["case"]), laws, mask_budget_s=data["mask_budget_s"]).to_json()


def _accepts(bound: BoundBackend, data: Mapping[str, Any]) -> dict[str, Any]:
    """Which texts a spec's grammar takes, byte by byte through its rows to an end; or why there is no grammar."""
    result = bound.compile(spec_from_json(data["spec"]))
    match result:
        case Err(error):
            return {"error": error.to_json(with_detail=True)}
        case Ok(grammar):
            return {
                "accepted": [_takes(grammar, text.encode("utf-8", "surrogatepass")) for text in data["texts"]],
                "unenforced": [attrs.astuple(finding) for finding in grammar.unenforced],
                "narrowed": [attrs.astuple(finding) for finding in grammar.narrowed],
            }


def _takes(grammar: Grammar, data: bytes) -> bool:
    """Whether a text can be written to an end under the core's guard: what is measured here is the language alone."""
    constraint = grammar.start().unwrap()
    row = np.zeros(grammar.vocabulary.bitmask_width, np.int32)
    for token in as_bytes(grammar.vocabulary, data) or ():
        if constraint.fill(row) is not Status.OK or not unpack(row)[token] or constraint.accept(token) is not Status.OK:
            return False
    return constraint.fill(row) is Status.OK and bool(unpack(row)[grammar.vocabulary.eos_token_ids[0]])


def _walks(bound: BoundBackend, data: Mapping[str, Any]) -> dict[str, Any]:
    """Tokens of random walks through the rows of a case, with the row after each: packed bits in hex."""
    case = Case.from_json(data["case"])
    match bound.compile(case.spec):
        case Err(error):
            return {"error": error.to_json()}
        case Ok(grammar):
            trial = trial_of(grammar, case, random.Random(case.seed))
            given = data.get("walks") or [probe.tokens for probe in trial.states(data["count"])]
            return {"walks": [_rows(trial.probed, tokens) for tokens in given]}


def _rows(probed: Probed, tokens: list[int]) -> dict[str, Any]:
    """The rows along a walk, to the first token that is refused."""
    probe = probed.start()
    rows = [_packed(probe.fill())]
    for token in tokens:
        if probe.accept(token) is not Status.OK:
            break
        rows.append(_packed(probe.fill()))
    return {"tokens": tokens, "rows": rows}


def _packed(bits: Bits) -> str:
    return np.packbits(bits).tobytes().hex()


JOBS: Final[Mapping[str, Callable[[BoundBackend, Mapping[str, Any]], dict[str, Any]]]] = {
    "examine": _examine,
    "accepts": _accepts,
    "walks": _walks,
}
