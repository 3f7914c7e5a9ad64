"""structout inside of vLLM: ``vllm serve MODEL --scheduler-cls engine_adapter.vllm.Scheduler``.

One request's way, by process:

::

    API server   door ─▶ vLLM's endpoint ─▶ admission ─▶ AsyncLLM.generate ─────────────▶ causes ─▶ 400, 503, 504, 500
                                                              │                             ▲
    engine core  grammars.submit (the compile service) ◀──────┘                             │
                    │ Pending                                                               │
                 scheduler: held ─promotion─▶ vLLM's queues ─▶ grammar (a Constraint) ─▶ EngineCoreOutput

`plugin.register` (entry point ``vllm.general_plugins``) prepares the API server, `Scheduler` the engine core. Where the
setting is not given, neither changes anything. `names` is the only module that knows which of vLLM's names are no
public interface. Nothing here imports vLLM when it is imported itself, except `scheduler`.
"""

from typing import Any


def Scheduler(*, vllm_config: Any, **arguments: Any) -> Any:
    """Makes what vLLM takes for its scheduler class: on the asynchronous one where vLLM schedules asynchronously.

    Raises:
        Unsupported: this version of vLLM, or what it was started with, is not one that structout can work in.
    """
    from engine_adapter.vllm.scheduler import scheduler_class

    return scheduler_class(vllm_config)(vllm_config=vllm_config, **arguments)
