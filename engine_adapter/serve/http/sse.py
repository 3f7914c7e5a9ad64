"""Server-sent events."""

import json
from typing import Any


def sse(data: dict[str, Any], *, event: str | None = None) -> bytes:
    """One event with a JSON object for its data; ``event`` is its name, if it has one."""
    name = "" if event is None else f"event: {event}\n"
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return f"{name}data: {text}\n\n".encode()
