"""vLLM's ``structured_outputs``, with the two fields that structout adds to it."""

import functools
import re
from typing import Any

import attrs

from structout.errors import GrammarError
from structout.parsing.fields import STRUCTURED_OUTPUTS, STRUCTURED_OUTPUTS_OPTIONS
from structout.parsing.limits import DEFAULT_LIMITS, SpecLimits
from structout.parsing.objects import members, only_one
from structout.parsing.places import Place, Placed
from structout.parsing.problems import child, describe, invalid, quote, quote_all, suggestion, unsupported
from structout.result import Err, Ok, Result
from structout.spec import GrammarSpec, JsonObject, JsonSchema, Policy, Whitespace

_CONSTRAINTS = tuple(STRUCTURED_OUTPUTS)
_WHAT = "structured_outputs"
_HINT = 'Use an object such as {"json": {...}} or {"regex": "..."}'


@attrs.frozen(kw_only=True)
class Options:
    """What a request says about how its constraint is to be kept; None where it says nothing."""

    policy: Policy | None = None
    whitespace: Whitespace | None = None

    def over(self, other: "Options") -> "Options":
        """These options, and the other ones where these say nothing."""
        return Options(policy=self.policy or other.policy, whitespace=self.whitespace or other.whitespace)

    def apply(self, spec: GrammarSpec, *, pointer: str) -> Result[GrammarSpec, GrammarError]:
        """The spec with these options; an error at ``pointer`` where the spec has no use for one of them."""
        if self.policy is not None:
            spec = attrs.evolve(spec, policy=self.policy)
        if self.whitespace is None:
            return Ok(spec)
        if not isinstance(spec, JsonSchema | JsonObject):
            message = f"options for white space go with JSON, not with a constraint of the kind {spec.kind}"
            return invalid(message, pointer=pointer, hint="Write the white space that is wanted into the constraint")
        serialization = attrs.evolve(spec.serialization, whitespace=self.whitespace)
        return Ok(attrs.evolve(spec, serialization=serialization))


def parse_structured_outputs(
    value: object, *, limits: SpecLimits = DEFAULT_LIMITS, pointer: str = "/structured_outputs"
) -> Result[GrammarSpec | None, GrammarError]:
    """One of ``json``, ``regex``, ``choice``, ``grammar`` (EBNF or Lark), ``json_object: true``, ``structural_tag``,
    and options; null is None.

    Options: ``enforcement`` (a `Policy`: "exact", "sound" or "best_effort"); ``backend`` (see `requested_backend`; no
    part of the spec); ``disable_any_whitespace: true`` for compact JSON. A ``whitespace_pattern`` other than the empty
    one and ``disable_additional_properties: true`` are UNSUPPORTED: nothing here enforces them as they stand.
    """
    if value is None:
        return Ok(None)
    match placed_constraint(value, limits=limits, pointer=pointer):
        case Err() as failed:
            return failed
        case Ok(Placed(spec)):
            options = parse_options(value, pointer=pointer)
            return options.and_then(functools.partial(Options.apply, spec=spec, pointer=pointer))
        case Ok():
            return only_options(pointer)


def only_options(pointer: str) -> Err[GrammarError]:
    """The error for options that have no constraint to go with."""
    message = f"{_WHAT} has options, but there is no constraint that they could go with"
    return invalid(message, pointer=pointer, hint=f"Give {quote_all(_CONSTRAINTS)} as well")


def placed_constraint(
    value: object, *, limits: SpecLimits, pointer: str
) -> Result[Placed[GrammarSpec] | None, GrammarError]:
    """The constraint without the options, and where it stands; None if there are only options."""
    match _members(value, pointer):
        case Err() as failed:
            return failed
        case Ok(given) if given and given.keys() <= set(STRUCTURED_OUTPUTS_OPTIONS):
            return Ok(None)
        case Ok(given):
            pass
    match only_one(given, _CONSTRAINTS, what=_WHAT, pointer=pointer):
        case Err() as failed:
            return failed
        case Ok(name):
            return STRUCTURED_OUTPUTS[name](given[name], limits=limits, pointer=child(pointer, name))


def _members(value: object, pointer: str) -> Result[dict[str, Any], GrammarError]:
    known = (*_CONSTRAINTS, *STRUCTURED_OUTPUTS_OPTIONS)
    return members(value, known, what=_WHAT, pointer=pointer, hint=_HINT)


def parse_options(value: object, *, pointer: str) -> Result[Options, GrammarError]:
    """The options without the constraint."""
    match _members(value, pointer):
        case Err() as failed:
            return failed
        case Ok(given):
            pass
    for name in ("disable_any_whitespace", "disable_additional_properties"):
        if not isinstance(flag := given.get(name, False), bool):
            message = f"{name} must be a boolean, not {describe(flag)}"
            return invalid(message, pointer=child(pointer, name), keyword=name)
    if given.get("disable_additional_properties"):
        name = "disable_additional_properties"
        hint = 'Write "additionalProperties": false into the schema'
        return unsupported(f"{name} is not supported", pointer=child(pointer, name), keyword=name, hint=hint)
    return _policy_and_whitespace(given, pointer)


def _policy_and_whitespace(given: dict[str, Any], pointer: str) -> Result[Options, GrammarError]:
    match parse_policy(given.get("enforcement"), pointer=child(pointer, "enforcement")):
        case Err() as failed:
            return failed
        case Ok(policy):
            pass
    compact = Options(policy=policy, whitespace=Whitespace.COMPACT if given.get("disable_any_whitespace") else None)
    pattern = parse_whitespace_pattern(given.get("whitespace_pattern"), pointer=child(pointer, "whitespace_pattern"))
    return pattern.map(compact.over)


def parse_policy(value: object, *, pointer: str) -> Result[Policy | None, GrammarError]:
    """``enforcement``: "exact", "sound" or "best_effort"; null is None, for what is usual."""
    known = tuple(policy.value for policy in Policy)
    if value is None:
        return Ok(None)
    if not isinstance(value, str):
        message = f"enforcement must be {quote_all(known)}, not {describe(value)}"
        return invalid(message, pointer=pointer, keyword="enforcement")
    if value not in known:
        message = f"{quote(value)} is not a way of enforcement{suggestion(value, known)}"
        return invalid(message, pointer=pointer, keyword="enforcement", hint=f"Use {quote_all(known)}")
    return Ok(Policy(value))


def parse_whitespace_pattern(value: object, *, pointer: str) -> Result[Options, GrammarError]:
    """The empty pattern is compact JSON; every other is something that no backend here enforces."""
    if value is None:
        return Ok(Options())
    if not isinstance(value, str):
        message = f"a white space pattern must be a string, not {describe(value)}"
        return invalid(message, pointer=pointer, keyword="whitespace_pattern")
    if not value:
        return Ok(Options(whitespace=Whitespace.COMPACT))
    return unsupported(
        "a pattern for white space is not supported",
        pointer=pointer,
        keyword="whitespace_pattern",
        hint="Leave it out for any white space, or set disable_any_whitespace to true for none",
    )


def placed_backend_of(value: object, *, pointer: str) -> Result[Placed[str] | None, GrammarError]:
    """The backend that ``structured_outputs`` names."""
    given = _members(value, pointer)
    return given.and_then(lambda given: placed_backend(given.get("backend"), pointer=child(pointer, "backend")))


_BACKEND_ID = re.compile(r"[a-z][a-z0-9_]*")


def placed_backend(value: object, *, pointer: str) -> Result[Placed[str] | None, GrammarError]:
    """The id of a backend; null and vLLM's word "auto" are None."""
    if value is None:
        return Ok(None)
    if not isinstance(value, str) or not _BACKEND_ID.fullmatch(value):
        found = quote(value) if isinstance(value, str) else describe(value)
        message = f"{found} cannot be the id of a backend"
        return invalid(message, pointer=pointer, keyword="backend", hint="Use an id such as xgrammar, or leave it out")
    return Ok(None if value == "auto" else Placed(value, Place(pointer)))
