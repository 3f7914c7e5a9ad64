"""The fault matrix: whatever goes wrong at whichever endpoint, the client is told the cause with the table's status,
the samples that it does not concern finish, and the next request is served."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Final

import pytest

from tests.compile.hazards import mark
from tests.compile.sandboxes import is_gone
from tests.serve.matrix.cells import CELLS, IMPOSSIBLE, Case, Cell, Endpoint, Trouble, cases
from tests.serve.matrix.expected import check_failed, check_served
from tests.serve.matrix.faulty import TEXT
from tests.serve.matrix.over_grpc import InferenceDoor, VllmEngineDoor
from tests.serve.matrix.over_http import HttpDoor
from tests.serve.matrix.server import Server, serving
from tests.serve.matrix.told import Ask, Door

pytestmark = pytest.mark.long

CASES: Final = tuple(cases())
IN_THE_SANDBOX: Final = {"hang": "hasty", "spin": "patient", "segfault": "patient"}
"""Deeds of a worker, and the service that has it try."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def test_every_cell_is_tried_or_listed_with_a_reason() -> None:
    tried = {case.cell for case in CASES}
    assert tried.isdisjoint(IMPOSSIBLE)
    assert tried | IMPOSSIBLE.keys() == set(CELLS)
    assert len(CELLS) == len(Endpoint) * 2 * 2 * len(Trouble)
    assert all(IMPOSSIBLE.values())


@pytest.mark.parametrize("case", [each for each in CASES if each.way.kind], ids=str)
def test_a_failure_is_told_with_its_cause_and_the_next_request_is_served(case: Case, server: Server) -> None:
    async def main() -> None:
        door = door_of(case.cell.endpoint, server)
        if case.way.deed == "hang":
            await server.until(lambda: bool(server.sandbox.pids()))  # or its time is over before it hangs
        async with crowd(case, server):
            told = await door.ask(asked(case, next(server.numbers)))
        check_failed(case, told)
        if case.way.deed in IN_THE_SANDBOX:
            await server.until(lambda: server.sandbox.lost > lost)
        await server.is_idle()
        await serves_the_next(case.cell, door, next(server.numbers))

    lost = server.sandbox.lost
    server.run(main())


@pytest.mark.parametrize("case", [each for each in CASES if each.way.deed == "leave while generating"], ids=str)
def test_a_client_that_leaves_aborts_its_generation(case: Case, server: Server) -> None:
    model, number = server.model, next(server.numbers)
    ask = Ask(case.cell.is_stream, case.cell.n, f"!hold late all {number}!", (f"!speak - - {number}", TEXT))

    async def main() -> None:
        model.gate.clear()
        model.is_holding.clear()
        door = door_of(case.cell.endpoint, server)
        await door.leave(ask, lambda: server.until(model.is_holding.is_set), is_late=True)
        await server.until(lambda: not server.doors.calls)
        model.gate.set()
        await server.is_idle()
        await serves_the_next(case.cell, door, next(server.numbers))

    server.run(main())
    assert 1 <= model.held[b"%d" % number] <= case.cell.n, "none of its samples had another token"


@pytest.mark.parametrize("case", [each for each in CASES if each.way.deed == "leave while compiling"], ids=str)
def test_a_client_that_leaves_stops_the_compile(case: Case, server: Server, tmp_path: Path) -> None:
    marked = tmp_path / "worker"
    marked.touch()
    ask = Ask(case.cell.is_stream, case.cell.n, "x", ("hang", mark(marked), "patient"))

    async def main() -> None:
        door = door_of(case.cell.endpoint, server)
        await door.leave(ask, lambda: server.until(lambda: marked.read_text().endswith("\n")), is_late=False)
        await server.is_idle()
        await server.until(lambda: is_gone(int(marked.read_text())))
        await serves_the_next(case.cell, door, next(server.numbers))

    server.run(main())


def crowd(case: Case, server: Server) -> AbstractAsyncContextManager[None]:
    match case.way.deed:
        case "crowd the compile service":
            return server.crowded_service()
        case "crowd the engine":
            return server.crowded_engine()
        case _:
            return nullcontext()


def door_of(endpoint: Endpoint, server: Server) -> Door:
    match endpoint:
        case Endpoint.CHAT | Endpoint.COMPLETIONS:
            return HttpDoor(server.doors.client, endpoint)
        case Endpoint.INFERENCE:
            return InferenceDoor(server.doors.channel)
        case Endpoint.VLLM_ENGINE:
            return VllmEngineDoor(server.doors.channel)


def asked(case: Case, number: int) -> Ask:
    """A request that comes to the case's cause; no grammar is the cache's."""
    cell, way = case.cell, case.way
    when, whom = ("early", "late")[way.is_late], ("all", "one")[way.hits_one]
    choice: tuple[str, ...] = (f"!{way.deed} {when} {whom} {number}", TEXT)
    match way.deed:
        case "no option":
            choice = ()
        case deed if deed in IN_THE_SANDBOX:
            choice = (deed, str(number), IN_THE_SANDBOX[deed])
    prompt = f"!{way.deed} {when} {whom} {number}!"
    return Ask(cell.is_stream, cell.n, prompt, choice, top_p=7.0 if way.deed == "top_p" else 1.0)


async def serves_the_next(cell: Cell, door: Door, number: int) -> None:
    """An ordinary request to the same endpoint gets its answer."""
    n = 1 if (cell.endpoint, cell.is_stream) == (Endpoint.INFERENCE, False) else cell.n
    ask = Ask(cell.is_stream, n, "x", (f"!speak - - {number}", TEXT))
    check_served(cell.endpoint, n, await door.ask(ask))
