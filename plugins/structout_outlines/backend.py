"""The backend object: one vocabulary, any number of grammars."""

import attrs

from structout.errors import ErrorKind, GrammarError
from structout.result import Err, Ok, Result
from structout.spec import Choice, GrammarSpec, JsonSchema, Regex
from structout.vocabulary import Vocabulary
from structout_outlines.automaton import Builder
from structout_outlines.json_regex import to_regex
from structout_outlines.matcher import OutlinesGrammar
from structout_outlines.refusals import narrowed, pattern_of, refusal, unenforced
from structout_outlines.syntax import read


class OutlinesBackend:
    """Compiles for one vocabulary.

    A regex is read in the syntax of Rust's ``regex``, and has to match the whole text: ``.`` is any character but the
    line feed, ``\\d``, ``\\w`` and ``\\s`` are Unicode's, and U+0000 is in no text. It has no look-around, back
    references, word boundaries or anchors other than at its ends. Which of several alternatives or repetitions is
    preferred (``a|ab``, ``a*?``) makes no difference.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._builder = Builder(vocabulary)

    def compile(self, spec: GrammarSpec) -> Result[OutlinesGrammar, GrammarError]:
        if error := refusal(spec):
            return Err(error)
        match spec:
            case JsonSchema():
                return self._json_schema(spec)
            case Regex() | Choice():
                return pattern_of(spec).and_then(self._builder.build)
            case _:
                message = f"outlines has no {spec.kind} grammars."
                return Err(GrammarError(kind=ErrorKind.UNSUPPORTED, message=message))

    def deserialize(self, data: bytes) -> Result[OutlinesGrammar, GrammarError]:
        """A grammar that this library has compiled for this vocabulary; reading takes a tenth of the time or less."""
        return OutlinesGrammar.deserialize(data, self._vocabulary)

    def _json_schema(self, spec: JsonSchema) -> Result[OutlinesGrammar, GrammarError]:
        match to_regex(spec).and_then(read).and_then(self._builder.build):
            case Err(error):
                return Err(_of_schema(error))
            case Ok(grammar):
                return unenforced(spec).and_then(
                    lambda more: narrowed(spec).map(
                        lambda less: attrs.evolve(grammar, unenforced=more, narrowed=less),
                    )
                )


def _of_schema(error: GrammarError) -> GrammarError:
    """The caller wrote no regular expression, so what is wrong with one is what the backend cannot do, and a place in
    it is none of the schema's."""
    if error.kind is not ErrorKind.INVALID_SPEC and error.offset is None:
        return error
    message = "outlines cannot write this schema as a regular expression."
    detail, hint = error.detail or error.message, "use another backend"
    return GrammarError(kind=ErrorKind.UNSUPPORTED, message=message, hint=hint, detail=detail)
