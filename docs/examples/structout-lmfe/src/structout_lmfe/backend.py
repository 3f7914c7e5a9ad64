"""The backend: from a spec to lm-format-enforcer's parsers."""

import re
import sys
from functools import cached_property
from typing import Any, Final

from interegular.patterns import InvalidSyntax, Unsupported
from lmformatenforcer import CharacterLevelParser, JsonSchemaParser, RegexParser, StringParser, UnionParser
from lmformatenforcer.characterlevelparser import CharacterLevelParserConfig
from structout import Choice, Err, ErrorKind, GrammarError, GrammarSpec, JsonSchema, Ok, Regex, Result, Vocabulary
from structout.backend import CompiledGrammar
from structout.errors import describe_exception
from structout.spec import KeyOrder

from structout_lmfe import rules
from structout_lmfe.matcher import LmfeGrammar
from structout_lmfe.tokens import Tokens

ANYTHING: Final = {"anyOf": [{"type": name} for name in ("number", "string", "boolean", "object", "null", "array")]}


class LmfeBackend:
    """lm-format-enforcer for one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    @cached_property
    def _text(self) -> Tokens:
        return Tokens(self._vocabulary, json=False)

    @cached_property
    def _json(self) -> Tokens:
        return Tokens(self._vocabulary, json=True)

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        if error := rules.refusal(spec):
            return Err(error)
        match spec:
            case JsonSchema():
                return self._schema(spec)
            case Regex(pattern=pattern):
                return self._regex(pattern)
            case Choice(options=options) if options:
                return Ok(LmfeGrammar(self._text, lambda: UnionParser([StringParser(each) for each in options])))
            case Choice():
                return _error(ErrorKind.INVALID_SPEC, "There is no option to choose.")
        return _error(ErrorKind.UNSUPPORTED, f"lmfe has no {spec.kind} grammars.")

    def _regex(self, pattern: str) -> Result[CompiledGrammar, GrammarError]:
        config = CharacterLevelParserConfig(alphabet=self._text.alphabet)
        try:
            parser = RegexParser(pattern, config)
        except (InvalidSyntax, Unsupported, RecursionError) as exc:
            if _is_regex(pattern):
                return _error(ErrorKind.UNSUPPORTED, "lmfe cannot read this regular expression.", exc)
            return _error(ErrorKind.INVALID_SPEC, "This is no regular expression.", exc)
        if parser.context.pattern.empty():
            return _error(ErrorKind.UNSATISFIABLE, "No text matches this regular expression.")
        # Made once, for the automaton: unlike the parsers of schemas, these have nothing that changes.
        return Ok(LmfeGrammar(self._text, lambda: parser))

    def _schema(self, spec: JsonSchema) -> Result[CompiledGrammar, GrammarError]:
        schema = prepared(spec.schema())
        config = CharacterLevelParserConfig(
            alphabet=self._json.alphabet,
            max_consecutive_whitespaces=sys.maxsize,
            force_json_field_order=spec.serialization.key_order is KeyOrder.DECLARED,
            max_json_array_length=0,
        )

        def new_parser() -> CharacterLevelParser:
            return JsonSchemaParser(schema, config)

        try:
            new_parser()
        except Exception as exc:
            return _error(ErrorKind.UNSUPPORTED, "lmfe cannot read this schema.", exc)
        return rules.unenforced(spec).and_then(
            lambda more: rules.narrowed(spec).map(lambda less: LmfeGrammar(self._json, new_parser, more, less))
        )


def prepared(schema: Any) -> dict[str, Any]:
    """A schema with nothing in it that the library would stumble over: annotations, booleans, members in no order."""
    if not rules.known(schema):
        return ANYTHING | {name: schema[name] for name in ("$defs", "definitions") if schema and name in schema}
    kept = {name: value for name, value in schema.items() if name in rules.RESTRICTING}
    for name in {"properties", "$defs", "definitions"} & kept.keys():
        kept[name] = {key: prepared(value) for key, value in kept[name].items()}
    for name in {"anyOf", "allOf", "oneOf"} & kept.keys():
        kept[name] = [prepared(value) for value in kept[name]]
    for name in {"items", "additionalProperties"} & kept.keys():
        kept[name] = prepared(kept[name])
    if "properties" in kept:
        kept.pop("additionalProperties", None)
        required = kept.get("required", ())
        kept["required"] = [name for name in kept["properties"] if name in required]
    return kept


def _is_regex(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _error(kind: ErrorKind, message: str, cause: BaseException | None = None) -> Err[GrammarError]:
    detail = describe_exception(cause) if cause else None
    return Err(GrammarError(kind=kind, message=message, hint="make it simpler, or name another backend", detail=detail))
