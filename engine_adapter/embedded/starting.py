"""From a grammar that is decided to the constraint of one request."""

from engine_adapter.embedded.request import Sequence
from engine_adapter.promotion import Decision
from structout.constraint import Constraint
from structout.errors import ErrorKind, GrammarError
from structout.grammar import Grammar
from structout.result import Err, Ok, Result


def started(sequence: Sequence, decision: Decision[str]) -> Result[Constraint, GrammarError]:
    """The constraint of a request whose grammar is decided; the grammar's error, or that of starting it."""
    match decision.result:
        case Ok((Grammar() as grammar,)):
            return _started_with(grammar, sequence)
        case Ok(values):
            raise TypeError(f"a request waits for one grammar, not for {[type(value).__name__ for value in values]}")
        case Err() as refused:
            return refused


def _started_with(grammar: Grammar, sequence: Sequence) -> Result[Constraint, GrammarError]:
    request = sequence.request
    if request.stop and request.include_stop and grammar.is_risky:
        message = "a grammar of this complexity cannot end a text behind a stop string"
        hint = "leave include_stop out, or make the grammar simpler"
        return Err(GrammarError(kind=ErrorKind.UNSUPPORTED, message=message, keyword="include_stop", hint=hint))
    # A stop string inside of tokens is tried out by taking them back.
    longest = max((len(stop.encode()) for stop in request.stop), default=-1)
    stops = sorted(sequence.stop_token_ids)
    return grammar.start(stop_token_ids=stops, max_rollback=longest + 1, activation=request.activation)
