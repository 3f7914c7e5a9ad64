"""What a client has to be told in each case: the one table's consequences, as each protocol says them."""

from typing import Final

from structout.errors import ErrorKind
from tests.serve.matrix.cells import Case, Cell, Endpoint, Trouble
from tests.serve.matrix.faulty import SECRET, SEEN, TEXT
from tests.serve.matrix.told import Cause, Said, Told

HTTP: Final = (Endpoint.CHAT, Endpoint.COMPLETIONS)

_POINTERS: Final = {
    ("no option", Endpoint.CHAT): "/structured_outputs/choice",
    ("no option", Endpoint.COMPLETIONS): "/structured_outputs/choice",
    ("no option", Endpoint.INFERENCE): "/decoding/choice/choices",
    ("no option", Endpoint.VLLM_ENGINE): "/sampling_params/choice/choices",
    ("top_p", Endpoint.CHAT): "/top_p",
    ("top_p", Endpoint.COMPLETIONS): "/top_p",
    ("top_p", Endpoint.INFERENCE): "/sampling/top_p",
    ("top_p", Endpoint.VLLM_ENGINE): "/sampling_params/top_p",
}


_OF_THE_CHOICE: Final = ("decline", "spin", "empty")
"""What is laid to the choice as a whole."""


def cause_in(case: Case) -> Cause:
    """The cause of a case."""
    way, cell = case.way, case.cell
    if cell == Cell(Endpoint.INFERENCE, False, 3, Trouble.BAD_REQUEST):
        return Cause(ErrorKind.UNSUPPORTED, way.party, "/sampling/num_sequences")
    assert way.kind is not None
    deed = "no option" if way.deed in _OF_THE_CHOICE else way.deed
    return Cause(way.kind, way.party, _POINTERS.get((deed, cell.endpoint)))


def check_failed(case: Case, told: Told) -> None:
    """What was told is what the table says of the case's cause, and no more."""
    assert SECRET not in told.everything
    if case.way.hits_one:
        _check_one(case, told)
    elif case.way.is_late and case.cell.is_stream:
        _check_late(case, told)
    else:
        _check_early(case, told)


def check_served(endpoint: Endpoint, n: int, told: Told) -> None:
    """All is well."""
    status = "200" if endpoint in HTTP else "OK"
    assert told == Told(status, None, {index: Said(TEXT, "stop") for index in range(n)}, "")


def _check_early(case: Case, told: Told) -> None:
    """Nothing is sent before the failure."""
    consequence = case.way.consequence
    if case.cell.endpoint in HTTP:
        status, may_retry = str(consequence.http_status), consequence.retry
        assert told == Told(status, cause_in(case), {}, "", may_retry=may_retry)
    else:
        assert told == Told(consequence.grpc_code, cause_in(case), {}, "")


def _check_late(case: Case, told: Told) -> None:
    """All samples fail, behind tokens that were sent."""
    cell, consequence, cause = case.cell, case.way.consequence, cause_in(case)
    is_http = cell.endpoint in HTTP
    assert told.status == ("200" if is_http else consequence.grpc_code)
    assert told.cause == cause
    assert set(told.samples) == set(range(cell.n))
    has_ends = is_http and cell.n > 1
    reason = consequence.finish_reason if has_ends else None
    for said in told.samples.values():
        assert said == Said(said.text, reason, cause if has_ends else None)
        assert said.text
        assert SEEN.startswith(said.text)


def _check_one(case: Case, told: Told) -> None:
    """One sample fails, and the others finish."""
    cell, consequence, cause = case.cell, case.way.consequence, cause_in(case)
    good = [index for index, said in told.samples.items() if said == Said(TEXT, "stop")]
    assert len(good) == cell.n - 1
    [bad] = set(range(cell.n)) - set(good)
    text = SEEN if case.way.is_late else ""
    match cell.endpoint:
        case Endpoint.CHAT | Endpoint.COMPLETIONS:
            status, whole, said = "200", None, Said(text, consequence.finish_reason, cause)
        case Endpoint.VLLM_ENGINE:
            status, whole, said = "OK", cause, Said(text, consequence.finish_reason)
        case Endpoint.INFERENCE:
            status, whole, said = consequence.grpc_code, cause, Said(text)
    assert (told.status, told.cause) == (status, whole)
    assert told.samples.get(bad, Said("")) == said
