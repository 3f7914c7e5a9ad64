"""Two backends on one spec, state by state: where both are exact, the same tokens may follow."""

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
    job = {"do": "walks", "case": exact.to_json(), "count": WALKS}
    try:
        for walker, follower in ((one, other), (other, one)):
            walked = walker.run(job, limit_s=LIMIT_S)
            if "walks" not in walked:
                return None
            given = job | {"walks": [walk["tokens"] for walk in walked["walks"]]}
            followed = follower.run(given, limit_s=LIMIT_S)
            if "walks" not in followed:
                return None
            for walk, again in zip(walked["walks"], followed["walks"], strict=True):
                if found := _first(walk, again, walker.target.backend, follower.target.backend):
                    return found
    except Ended:
        return None
    return None


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
