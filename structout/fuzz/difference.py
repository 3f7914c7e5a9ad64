"""Two processes on one spec, state by state: of one backend, or of two that are exact, the same tokens may follow."""

from typing import Any, Final

import attrs
import numpy as np

from structout.fuzz.case import Case
from structout.fuzz.child import Child, Ended
from structout.fuzz.laboratory import LIMIT_S
from structout.fuzz.law import Law, Violation
from structout.fuzz.probe import Bits
from structout.spec import Policy

WALKS: Final = 4
"""Random walks through each backend's rows."""


def mask_difference(one: Child, other: Child, case: Case) -> Violation | None:
    """The first state on random walks through either's rows in which two backends allow different tokens.

    None where there is none, and where not both compile the spec under the policy ``EXACT``.
    """
    exact = attrs.evolve(case, spec=attrs.evolve(case.spec, policy=Policy.EXACT))
    names = one.target.backend, other.target.backend
    return _first_of_walks(one, other, exact, names) or _first_of_walks(other, one, exact, names[::-1])


def process_difference(one: Child, other: Child, case: Case) -> Violation | None:
    """The first state on random walks in which the same backend allows different tokens in two processes.

    None where there is none, and where it does not compile the spec.
    """
    found = _first_of_walks(one, other, case, ("in one process", "in the other"))
    if found is None:
        return None
    return Violation(Law.DETERMINISM, "two processes allow different tokens", found.evidence)


def _first_of_walks(walker: Child, follower: Child, case: Case, names: tuple[str, str]) -> Violation | None:
    job = {"do": "walks", "case": case.to_json(), "count": WALKS}
    try:
        walked = walker.run(job, limit_s=LIMIT_S)
        if "walks" not in walked:
            return None
        followed = follower.run(job | {"walks": [walk["tokens"] for walk in walked["walks"]]}, limit_s=LIMIT_S)
    except Ended:
        return None
    pairs = zip(walked["walks"], followed.get("walks", ()), strict=False)
    return next(filter(None, (_first(walk, again, *names) for walk, again in pairs)), None)


def _first(walk: dict[str, Any], again: dict[str, Any], walker: str, follower: str) -> Violation | None:
    for step, (row, other) in enumerate(zip(walk["rows"], again["rows"], strict=False)):
        if row != other:
            bits, others = _bits(row), _bits(other)
            evidence = {
                "tokens": walk["tokens"][:step],
                f"only {walker}": (bits & ~others).nonzero()[0].tolist()[:8],
                f"only {follower}": (others & ~bits).nonzero()[0].tolist()[:8],
            }
            return Violation(Law.MASK_DIFFERENCE, f"{walker} and {follower} allow different tokens", evidence)
    return None


def _bits(row: str) -> Bits:
    return np.unpackbits(np.frombuffer(bytes.fromhex(row), np.uint8)).astype(np.bool_)
