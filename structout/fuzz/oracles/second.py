"""A second instance of the backend under test."""

from structout.fuzz.law import Law, broken
from structout.grammar import BoundBackend
from structout.result import Err, Ok
from structout.vocabulary import Vocabulary


def second(bound: BoundBackend, vocabulary: Vocabulary, when: str) -> BoundBackend:
    """The same backend, started once more. Breaks RESULT_DISCIPLINE, saying ``when``, if that fails."""
    match BoundBackend.create(bound.info, bound.distribution, vocabulary):
        case Ok(another):
            return another
        case Err(error):
            return broken(Law.RESULT_DISCIPLINE, f"it cannot be started {when}: {error.detail or error.message}")
