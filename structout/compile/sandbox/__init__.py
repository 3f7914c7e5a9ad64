"""Specs are tried in processes that can be killed: `Sandbox`.

One spec's way: `pool.Sandbox.run` takes a worker from the `crew` → `worker.Bench.do`: the candidates one by one,
compiled and then `walking` through their masks → a line of JSON, checked by `messages` → a `Tried` or a `GrammarError`.
What ends the worker instead becomes an error in `verdicts`.
"""

from structout.compile.sandbox.limits import Limits
from structout.compile.sandbox.messages import Tried
from structout.compile.sandbox.pool import Sandbox, Walks

__all__ = ["Limits", "Sandbox", "Tried", "Walks"]
