"""Ranks that agree: where each rank of a model compiles and fills for itself, all of them do the same in the same step.

In an engine with tensor or pipeline parallelism every rank has the same requests in the same steps, but its own compile
service, matchers and clock. So one may have a grammar that another still waits for, may have lost a worker, or may be
late with a bitmask row. `Agreement.exchange` tells a leader what this rank has come to and returns what the leader
decided, by request id: once a step, when the bitmasks are filled, and before anything is sampled::

    for decision in promoter.decided():             # what became of this rank's own compiles
        match started(decision):
            case Ok(constraint): agreement.ready(decision.key)      # the constraint is kept for later
            case Err(error): agreement.failed(decision.key, error)
        promoter.settle(decision.key)
    ...                                             # plan, launch, fill
    agreed = agreement.exchange(in_time=..., late=..., missed=...)
    for request_id, error in agreed.ended: ...      # ends here and everywhere, whatever it was doing
    for request_id in agreed.late: ...              # sits this step out, also where its row is there
    for request_id in agreed.ready: ...             # back to the schedulable queue, in this order

The parts: `messages` (what is said), `transport` (how), `leader` (who decides), `agreement` (a rank's side of it).
"""

from engine_adapter.ranks.agreement import Agreement
from engine_adapter.ranks.messages import Agreed, Report
from engine_adapter.ranks.transport import Transport

__all__ = ["Agreed", "Agreement", "Report", "Transport"]
