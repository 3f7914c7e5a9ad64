"""Structural tags: both forms that clients send, brought to xgrammar's present one."""

import json
from typing import Any

import attrs

from structout.errors import GrammarError
from structout.parsing.json_text import read_json
from structout.parsing.limits import DEFAULT_LIMITS, SpecLimits
from structout.parsing.objects import members, only_one
from structout.parsing.places import Place, Placed
from structout.parsing.problems import child, describe, invalid
from structout.result import Err, Ok, Result
from structout.spec import Policy, StructuralTag

_FIELDS = ("type", "format", "structures", "triggers", "at_least_one")
_HINT = 'Pass {"type": "structural_tag", "format": {...}}'


def structural_tag(
    tag: object,
    *,
    policy: Policy = Policy.SOUND,
    limits: SpecLimits = DEFAULT_LIMITS,
    pointer: str | None = None,
) -> Result[StructuralTag, GrammarError]:
    """A structural tag as JSON text or as a JSON value.

    Either ``{"type": "structural_tag", "format": {...}}``, whose format is left to the backend, or the older
    ``{"type": "structural_tag", "structures": [{"begin", "schema", "end"}, ...], "triggers": [...]}``, which is
    rewritten as a ``triggered_tags`` format of the same meaning.
    """
    read = placed_tag(tag, limits=limits, pointer=pointer or "")
    return read.map(lambda placed: attrs.evolve(placed.value, policy=policy))


def placed_tag(tag: object, /, *, limits: SpecLimits, pointer: str) -> Result[Placed[StructuralTag], GrammarError]:
    """`structural_tag`, and where the parts of it stand in the form that was sent."""
    match read_json(tag, what="the structural tag", limits=limits, pointer=pointer):
        case Err() as failed:
            return failed
        case Ok(read):
            given = members(read.value, _FIELDS, what="the structural tag", pointer=pointer, hint=_HINT)
            return given.and_then(lambda given: _placed(given, pointer))


def _placed(given: dict[str, Any], pointer: str) -> Result[Placed[StructuralTag], GrammarError]:
    formatted = _format(given, pointer)
    place = Place(pointer, _legacy_parts(given, pointer)) if "structures" in given else Place(pointer)
    return formatted.map(lambda tag: Placed(StructuralTag(_dump(tag)), place))


def _legacy_parts(tag: dict[str, Any], pointer: str) -> dict[str, str]:
    """Where the parts of the format stand that `_legacy` makes."""
    parts = {"/format/triggers": child(pointer, "triggers"), "/format/at_least_one": child(pointer, "at_least_one")}
    for index in range(len(tag["structures"]) if isinstance(tag["structures"], list) else 0):
        made, sent = f"/format/tags/{index}", child(pointer, "structures", index)
        parts |= {made: sent, f"{made}/content": f"{sent}/schema", f"{made}/content/json_schema": f"{sent}/schema"}
    return parts


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _format(tag: dict[str, Any], pointer: str) -> Result[dict[str, Any], GrammarError]:
    if tag.get("type", "structural_tag") != "structural_tag":
        message = 'the type of a structural tag is "structural_tag" and nothing else'
        return invalid(message, pointer=child(pointer, "type"), hint=_HINT)
    match only_one(tag, ("format", "structures"), what="the structural tag", pointer=pointer):
        case Err() as failed:
            return failed
        case Ok("format"):
            format_ = _present(tag, pointer)
        case Ok():
            format_ = _legacy(tag, pointer)
    return format_.map(lambda format_: {"type": "structural_tag", "format": format_})


def _present(tag: dict[str, Any], pointer: str) -> Result[dict[str, Any], GrammarError]:
    format_ = tag["format"]
    if not isinstance(format_, dict) or not isinstance(format_.get("type"), str):
        message = 'the format of a structural tag must be an object with a "type"'
        hint = 'Use a format such as {"type": "triggered_tags", ...}'
        return invalid(message, pointer=child(pointer, "format"), hint=hint)
    for name in ("triggers", "at_least_one"):
        if name in tag:
            message = f"{name} goes with structures, not with a format"
            return invalid(message, pointer=child(pointer, name), keyword=name, hint="Say it inside the format")
    return Ok(format_)


def _legacy(tag: dict[str, Any], pointer: str) -> Result[dict[str, Any], GrammarError]:
    match _triggers(tag.get("triggers"), child(pointer, "triggers")):
        case Err() as failed:
            return failed
        case Ok(triggers):
            pass
    structures = tag.get("structures")
    if not isinstance(structures, list) or not structures:
        message = "structures must be an array of at least one object"
        return invalid(message, pointer=child(pointer, "structures"), hint='Use {"begin", "schema", "end"} for each')
    tags: list[dict[str, Any]] = []
    for index, structure in enumerate(structures):
        match _tag(structure, child(pointer, "structures", index)):
            case Err() as failed:
                return failed
            case Ok(converted):
                tags.append(converted)
    format_ = {"type": "triggered_tags", "triggers": triggers, "tags": tags}
    return _at_least_one(tag, pointer).map(lambda flag: format_ | flag)


def _triggers(triggers: object, pointer: str) -> Result[list[str], GrammarError]:
    if not isinstance(triggers, list) or not triggers or not all(isinstance(text, str) and text for text in triggers):
        message = "triggers must be an array of at least one text, none of them empty"
        return invalid(message, pointer=pointer, hint="Use texts that the tags begin with")
    return Ok(triggers)


def _tag(structure: object, pointer: str) -> Result[dict[str, Any], GrammarError]:
    match members(structure, ("begin", "schema", "end"), what="a structure", pointer=pointer):
        case Err() as failed:
            return failed
        case Ok(given):
            pass
    for name in ("begin", "end"):
        if not isinstance(given.get(name), str):
            message = f"{name} of a structure must be a string, not {describe(given.get(name))}"
            return invalid(message, pointer=child(pointer, name), keyword=name)
    schema = given.get("schema")
    if not isinstance(schema, dict | bool):
        message = f"the schema of a structure must be an object or a boolean, not {describe(schema)}"
        return invalid(message, pointer=child(pointer, "schema"), keyword="schema")
    content = {"type": "json_schema", "json_schema": schema}
    return Ok({"type": "tag", "begin": given["begin"], "content": content, "end": given["end"]})


def _at_least_one(tag: dict[str, Any], pointer: str) -> Result[dict[str, bool], GrammarError]:
    flag = tag.get("at_least_one", False)
    if not isinstance(flag, bool):
        message = f"at_least_one must be a boolean, not {describe(flag)}"
        return invalid(message, pointer=child(pointer, "at_least_one"))
    return Ok({"at_least_one": True} if flag else {})
