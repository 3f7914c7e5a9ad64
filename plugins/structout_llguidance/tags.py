"""Structural tags that llguidance has too: JSON in a tag, or free text in which triggers begin such tags."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from structout.backend import Finding
from structout.errors import ErrorKind, GrammarError
from structout.parsing.tags import structural_tag
from structout.result import Err, Ok, Result
from structout.schema.pointer import join
from structout.spec import JsonSchema, StructuralTag
from structout_llguidance.examination import Examination, examine

_OFF: Final = ("at_least_one", "stop_after_first")
_GOES_ON: Final = frozenset("0123456789+-.eE \t\r\n")
"""What a number may go on with, and the white space behind JSON."""


_SCHEMA: Final = "/content/json_schema"
"""Where in a tag the schema is."""


@attrs.frozen(eq=False)
class Tag:
    """One tag.

    Attributes:
        trigger: what of ``begin`` makes free text a tag; None if there is nothing but the tag.
        begin, end: the texts around the JSON.
        schema: of the JSON.
        examination: of the schema.
        pointer: of the tag, into the structural tag.
    """

    trigger: str | None
    begin: str
    end: str
    schema: JsonSchema
    examination: Examination
    pointer: str

    def placed(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Findings in the schema, with pointers into the structural tag."""
        return tuple(attrs.evolve(finding, pointer=self.pointer + _SCHEMA + finding.pointer) for finding in findings)

    @property
    def narrowed(self) -> tuple[Finding, ...]:
        """What lets through less."""
        found = self.placed(self.examination.narrowed)
        if self.end[:1] not in _GOES_ON:
            return found
        return (*found, Finding(self.pointer, "end", "is taken for a part of the JSON before it, where it could be"))


def read_tags(spec: StructuralTag) -> Result[Sequence[Tag], GrammarError]:
    """The tags of a ``tag`` or a ``triggered_tags`` format around JSON Schemas; any other format is UNSUPPORTED."""
    match structural_tag(spec.text, policy=spec.policy):
        case Err() as failed:
            return failed
        case Ok(normal):
            format_ = json.loads(normal.text)["format"]
    if _is_around_json(format_):
        return _read_tag(format_, None, "/format", spec).map(lambda tag: [tag])
    if error := _refusal(format_):
        return Err(error)
    return _read_triggered(format_, spec)


def _read_triggered(format_: Mapping[str, Any], spec: StructuralTag) -> Result[Sequence[Tag], GrammarError]:
    tags: list[Tag] = []
    for index, tag in enumerate(format_["tags"]):
        place = join("/format/tags", index)
        trigger = next((trigger for trigger in format_["triggers"] if tag["begin"].startswith(trigger)), None)
        if trigger is None:
            message = "A tag begins with none of the triggers."
            return Err(GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, pointer=join(place, "begin")))
        match _read_tag(tag, trigger, place, spec):
            case Err() as failed:
                return failed
            case Ok(read):
                tags.append(read)
    return Ok(tags)


def _refusal(format_: Mapping[str, Any]) -> GrammarError | None:
    if not _is_triggered(format_):
        return _unsupported("only tags around JSON Schemas, triggered or alone, are", "/format")
    triggers, begins = format_["triggers"], [tag["begin"] for tag in format_["tags"]]
    if any(one != other and one in other for one in triggers for other in triggers):
        return _unsupported("triggers that contain one another are not", "/format/triggers")
    if not all(any(begin.startswith(trigger) for begin in begins) for trigger in triggers):
        return _unsupported("a trigger that no tag begins with is not", "/format/triggers")
    return None


def _is_triggered(format_: Mapping[str, Any]) -> bool:
    """Whether it is a format with nothing in it that is not read here."""
    return (
        format_["type"] == "triggered_tags"
        and format_.keys() <= {"type", "triggers", "tags", *_OFF}
        and not any(format_.get(flag) for flag in _OFF)
        and _are_texts(format_.get("triggers"))
        and isinstance(format_.get("tags"), list)
        and bool(format_["tags"])
        and all(map(_is_around_json, format_["tags"]))
    )


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) and text for text in value)


def _is_around_json(tag: Any) -> bool:
    if not isinstance(tag, dict) or not tag.keys() <= {"type", "begin", "content", "end"}:
        return False
    content = tag.get("content")
    return (
        tag.get("type", "tag") == "tag"
        and isinstance(tag.get("begin"), str)
        and isinstance(tag.get("end"), str)
        and isinstance(content, dict)
        and content.keys() == {"type", "json_schema"}
        and content["type"] == "json_schema"
        and isinstance(content["json_schema"], dict)
    )


def _read_tag(
    tag: Mapping[str, Any], trigger: str | None, pointer: str, spec: StructuralTag
) -> Result[Tag, GrammarError]:
    schema = JsonSchema(json.dumps(tag["content"]["json_schema"]), policy=spec.policy)
    match examine(schema):
        case Err(error):
            return Err(attrs.evolve(error, pointer=pointer + _SCHEMA + (error.pointer or "")))
        case Ok(examination):
            return Ok(Tag(trigger, tag["begin"], tag["end"], schema, examination, pointer))


def _unsupported(what: str, pointer: str) -> GrammarError:
    return GrammarError(kind=ErrorKind.UNSUPPORTED, message=f"Of structural tags, {what} supported.", pointer=pointer)
