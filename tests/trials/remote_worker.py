"""A process with matchers in it, that fills rows in shared memory: ``python -m tests.trials.remote_worker FILE``.

It reads one JSON object a line and answers each with one; nothing that could carry code crosses. The rows are the file,
mapped; ``slow`` makes a fill take that many seconds, to miss budgets with.
"""

import json
import sys
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from structout import Choice, Status
from structout.backend import Matcher, SupportsFork
from tests.fakes import BYTES, ForkTrieMatcher, TrieBackend


def map_rows(file: str) -> npt.NDArray[np.int32]:
    """The rows in ``file``, shared with whoever else maps it: int32 [rows, width]."""
    return np.memmap(file, np.int32, "r+").reshape(-1, BYTES.bitmask_width)


class Worker:
    """Matchers by number; matcher ``n`` fills row ``n``."""

    def __init__(self, rows: npt.NDArray[np.int32]) -> None:
        self.rows = rows
        self.matchers: dict[int, Matcher] = {}

    def answer(self, call: dict[str, Any]) -> Any:
        match call:
            case {"do": "start", "matcher": int(number), "options": list(options), "stops": list(stops)}:
                grammar = TrieBackend(BYTES, ForkTrieMatcher).compile(Choice(options)).unwrap()
                self.matchers[number] = grammar.start(stop_token_ids=stops, max_rollback=0)
            case {"do": "fork", "matcher": int(number), "copy": int(copy)}:
                original = self.matchers[number]
                assert isinstance(original, SupportsFork)
                self.matchers[copy] = original.fork()
            case {"do": "fill", "matcher": int(number), "slow": seconds}:
                time.sleep(seconds)
                return self.matchers[number].fill(self.rows[number]).value
            case {"do": "accept", "matcher": int(number), "token": int(token)}:
                return self.matchers[number].accept(token).value
            case {"do": "accepting", "matcher": int(number)}:
                return self.matchers[number].is_accepting
        return Status.OK.value


def main(file: str) -> None:
    worker = Worker(map_rows(file))
    for line in sys.stdin:
        call = json.loads(line)
        print(json.dumps({"call": call["call"], "answer": worker.answer(call)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
