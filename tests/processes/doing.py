"""A child that does what it is told, a line at a time."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from structout.processes.child import Lines, be_expendable


def main() -> None:
    lines = Lines()
    be_expendable()
    for asked in lines:
        lines.write(_done(asked))


def _done(asked: Mapping[str, Any]) -> dict[str, Any]:
    match asked:
        case {"exit": int(status)}:
            os._exit(status)
        case {"leave": str(text)}:
            sys.exit(text)
        case {"signal": int(number)}:
            os.kill(os.getpid(), number)
            signal.pause()
        case {"raise": str(text)}:
            raise RuntimeError(text)
        case {"say": str(text), "abort": int(depth)}:
            os.write(2, text.encode())
            _abort(depth)
        case {"say": str(text)}:
            os.write(2, text.encode())
        case {"read": int(descriptor)}:
            return {"read": os.pread(descriptor, 100, 0).decode()}
        case {"start": list(command)}:
            return {"pid": subprocess.Popen(command).pid}
        case {"loaded": str(module)}:
            return {"loaded": module in sys.modules}
        case {"group": _}:
            return {"pid": os.getpid(), "group": os.getpgid(0), "nice": os.getpriority(os.PRIO_PROCESS, 0)}
    return {}


def _abort(depth: int) -> None:
    """With that many calls of this function on the stack."""
    if depth > 1:
        _abort(depth - 1)
    os.abort()


if __name__ == "__main__":
    main()
