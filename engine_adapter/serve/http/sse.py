"""Server-sent events."""

import json
from typing import Any


def sse(data: dict[str, Any], *, event: str | None = None) -> bytes:
    """One event with a JSON object for its data; ``event`` is its name, if it has one."""
    name = b"" if event is None else b"event: " + event.encode() + b"\n"
    return name + b"data: " + json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"
