"""The backend object: one vocabulary, any number of grammars."""

from collections.abc import Sequence
from typing import Final

from structout.backend import Bitmask, Status
from structout.errors import ErrorKind, GrammarError
from structout.result import Err, Ok, Result
from structout.spec import Choice, Ebnf, GrammarSpec, JsonObject, JsonSchema, Regex, StructuralTag
from structout.vocabulary import Vocabulary
from structout_reference.characters import literal, utf8
from structout_reference.ebnf import read_ebnf
from structout_reference.errors import Refused, refused
from structout_reference.matcher import ReferenceGrammar, ReferenceMatcher
from structout_reference.nodes import Node, Rules, alt, longest, pruned
from structout_reference.recognizer import Recognizer
from structout_reference.refusals import refusal
from structout_reference.regex import whole
from structout_reference.schema import START, read_object, read_schema
from structout_reference.tags import read_tag
from structout_reference.trie import alphabet, trie_of

MAX_LENGTH: Final = 20_000
"""Parts of a sequence. Every state holds a copy of those that are left."""


class ReferenceBackend:
    """Compiles for one vocabulary. `structout_reference.regex` and `structout_reference.ebnf` say what syntax it reads.

    Every mask allows exactly the tokens after which the text can still become one of the language, if the vocabulary
    has a token for every byte that occurs in its tokens. There are no dead ends then.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._tokens = vocabulary.tokens()
        self._trie = trie_of(vocabulary)
        self._alphabet = alphabet(vocabulary)

    def compile(self, spec: GrammarSpec) -> Result[ReferenceGrammar, GrammarError]:
        if error := refusal(spec):
            return Err(error)
        try:
            return self._grammar(*_read(spec))
        except Refused as refusal_:
            return Err(refusal_.error)

    def _grammar(self, rules: Rules, start: str) -> Result[ReferenceGrammar, GrammarError]:
        if longest(rules) > MAX_LENGTH:
            raise refused(f"There are more than {MAX_LENGTH:,} parts in a row.", ErrorKind.TOO_COMPLEX)
        finite = pruned(rules, self._alphabet)
        if start not in finite:
            message = "No text satisfies this grammar."
            return Err(GrammarError(kind=ErrorKind.UNSATISFIABLE, message=message))
        recognizer = Recognizer(finite, start)
        return Ok(ReferenceGrammar(recognizer, self._vocabulary, self._trie, self._tokens))

    def fill_batch(
        self, matchers: Sequence[ReferenceMatcher], bitmask: Bitmask, rows: Sequence[int]
    ) -> Sequence[Status]:
        """One row after the other."""
        return [matcher.fill(bitmask[row]) for matcher, row in zip(matchers, rows, strict=True)]


def _read(spec: GrammarSpec) -> tuple[Rules, str]:
    """The rules of a spec, and the one to start with."""
    match spec:
        case Regex(pattern=pattern):
            return {START: whole(pattern, utf8)}, START
        case Ebnf(text=source, root=start):
            return read_ebnf(source, start), start
        case Choice(options=options):
            return {START: _choice(options)}, START
        case JsonObject():
            return read_object(spec), START
        case JsonSchema():
            return read_schema(spec), START
        case StructuralTag():
            return read_tag(spec), START
        case _:
            raise refused(f"The reference backend has no {spec.kind} grammars.")


def _choice(options: Sequence[str]) -> Node:
    if not options:
        raise refused("There are no options to choose from.", ErrorKind.INVALID_SPEC)
    return alt(*map(literal, options))
