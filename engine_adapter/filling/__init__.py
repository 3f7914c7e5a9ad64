"""Filling a step's bitmask rows under a budget: what is not there in time sits the step out, and nobody waits for it::

    filling = filler.begin(constraints)     # beside the forward pass
    filled = wait(filling)                  # for the budget at most
    ...                                     # sample by filling.bitmask the rows whose status is OK
    filling.end()

The parts, from the inside out: `call` (what one thread does), `crew` (the threads), `ledger` (who was late), `filling`
(one step), `filler` (who is filled how).

Grammars in processes of their own, from the outside in: `isolation` (which), `risky` (those of a backend), `spares`
(processes that are started ahead), `host` (one process), `worker` (what runs in it), `remote` (its matchers, here).
"""

from engine_adapter.filling.filler import Filler
from engine_adapter.filling.filling import Filled, Filling, wait

__all__ = ["Filled", "Filler", "Filling", "wait"]
