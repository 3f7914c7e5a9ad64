"""How a client's script, in the client's own environment, tells the tests what it has seen.

It needs nothing but the standard library.
"""

import json
import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

Client = TypeVar("Client")


def observe(client: Client, observations: list[Callable[[Client], Any]]) -> None:
    """Prints, as a line of JSON, what each function returns for the client, or how it raised, by its name."""
    print(json.dumps({each.__name__: _outcome(each, client) for each in observations}))


def _outcome(observation: Callable[[Client], Any], client: Client) -> dict[str, Any]:
    try:
        return {"returned": observation(client)}
    except Exception:
        return {"raised": traceback.format_exc()}


def address() -> str:
    """Where the server is: the script's only argument."""
    return sys.argv[1]
