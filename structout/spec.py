"""What a request asks for: one frozen value that decides the language, and nothing else.

``GrammarSpec`` is a union of seven kinds. Two specs with the same `key` have the same language on every backend, so
the key is what caches use. Stop tokens, sampling parameters and the choice of a backend are not part of it.

The constructors take text as it is, and an enumeration's value for its member (ValueError if it has none);
`structout.parsing` turns what clients send into specs, with errors for them.
"""

import enum
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeAlias

import attrs

_text = attrs.validators.instance_of(str)


class Dialect(enum.StrEnum):
    """JSON Schema dialect that is meant where the schema itself does not say (``$schema`` wins)."""

    DRAFT_2020_12 = "https://json-schema.org/draft/2020-12/schema"
    DRAFT_2019_09 = "https://json-schema.org/draft/2019-09/schema"
    DRAFT_7 = "http://json-schema.org/draft-07/schema#"
    DRAFT_6 = "http://json-schema.org/draft-06/schema#"
    DRAFT_4 = "http://json-schema.org/draft-04/schema#"


class FormatMode(enum.StrEnum):
    """Whether ``format`` restricts strings (what people who generate text expect) or only annotates them."""

    ASSERT = "assert"
    ANNOTATE = "annotate"


class Policy(enum.StrEnum):
    """How exactly a backend has to enforce a spec before it may accept it.

    EXACT: the language is the spec's, up to the serialization. SOUND: nothing that the spec forbids gets through; the
    backend may narrow the language and says where. BEST_EFFORT: more may get through; the backend lists what it does
    not enforce.
    """

    EXACT = "exact"
    SOUND = "sound"
    BEST_EFFORT = "best_effort"


class Whitespace(enum.StrEnum):
    """White space between JSON tokens. ANY: any amount of it. SPACED: ``", "`` and ``": "``, as `json.dumps` writes.
    COMPACT: none."""

    ANY = "any"
    SPACED = "spaced"
    COMPACT = "compact"


class KeyOrder(enum.StrEnum):
    """Order of an object's members. DECLARED: as ``properties`` lists them. ANY: every order."""

    DECLARED = "declared"
    ANY = "any"


class Escapes(enum.StrEnum):
    """Escapes in JSON strings. ANY: all that JSON allows. MINIMAL: only where JSON demands one."""

    ANY = "any"
    MINIMAL = "minimal"


@attrs.frozen
class Serialization:
    """Which of the texts that denote one JSON value belong to the language."""

    whitespace: Whitespace = attrs.field(default=Whitespace.ANY, converter=Whitespace)
    key_order: KeyOrder = attrs.field(default=KeyOrder.DECLARED, converter=KeyOrder)
    escapes: Escapes = attrs.field(default=Escapes.ANY, converter=Escapes)


# Possessive, and a string may lack its end: what never ends is scanned once. Space between two words stays, which no
# JSON has: without it ``tr ue`` would become JSON.
_STRING_OR_SPACE = re.compile(
    r"""("(?:[^"\\]|\\.)*+"?)|(?<![^][{},:" \t\n\r])[ \t\n\r]++|[ \t\n\r]++(?![^][{},:"])""", re.DOTALL
)


def strip_json_whitespace(text: str) -> str:
    """JSON ``text`` without the white space between its tokens; all else, member order included, is kept.

    What is not JSON becomes no JSON, and no more than linear time is spent on it.
    """
    return _STRING_OR_SPACE.sub(lambda match: match[1] or "", text)


def _digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def _freeze_registry(value: Mapping[str, str] | Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(value.items() if isinstance(value, Mapping) else value))


@attrs.frozen(kw_only=True)
class _Spec:
    """What all kinds have in common."""

    kind: ClassVar[str]
    policy: Policy = attrs.field(default=Policy.SOUND, converter=Policy)
    _key: str = attrs.field(init=False, repr=False, eq=False, default="")

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_key", _digest(self.kind, self.policy, *self._language()))

    def _language(self) -> tuple[str, ...]:
        raise AssertionError("every kind defines its language")

    @property
    def key(self) -> str:
        """SHA-256 in hex of all that decides the language and how exactly it has to be kept."""
        return self._key


@attrs.frozen
class JsonSchema(_Spec):
    """JSON texts that are instances of a schema.

    Attributes:
        text: the schema, as valid JSON text. Kept as text: a dict could change under a cache that holds it.
        dialect: for schemas without ``$schema``.
        format_mode: see `FormatMode`.
        serialization: see `Serialization`.
        registry: (URI, schema text) pairs that ``$ref`` may name beyond the schema itself; a mapping is taken too.
    """

    kind: ClassVar[str] = "json_schema"
    text: str = attrs.field(validator=_text)
    dialect: Dialect = attrs.field(default=Dialect.DRAFT_2020_12, kw_only=True, converter=Dialect)
    format_mode: FormatMode = attrs.field(default=FormatMode.ASSERT, kw_only=True, converter=FormatMode)
    serialization: Serialization = attrs.field(default=Serialization(), kw_only=True)
    registry: tuple[tuple[str, str], ...] = attrs.field(default=(), kw_only=True, converter=_freeze_registry)

    def schema(self) -> Any:
        """The schema as a fresh Python value. Raises ValueError if the text is not JSON."""
        return json.loads(self.text)

    def _language(self) -> tuple[str, ...]:
        registry = [part for uri, text in self.registry for part in (uri, strip_json_whitespace(text))]
        return (
            strip_json_whitespace(self.text),
            self.dialect,
            self.format_mode,
            *attrs.astuple(self.serialization),
            *registry,
        )


@attrs.frozen
class JsonObject(_Spec):
    """Any JSON object."""

    kind: ClassVar[str] = "json_object"
    serialization: Serialization = attrs.field(default=Serialization(), kw_only=True)

    def _language(self) -> tuple[str, ...]:
        return attrs.astuple(self.serialization)


@attrs.frozen
class Regex(_Spec):
    """Texts that match a regular expression from their first character to their last (``fullmatch``)."""

    kind: ClassVar[str] = "regex"
    pattern: str = attrs.field(validator=_text)

    def _language(self) -> tuple[str, ...]:
        return (self.pattern,)


@attrs.frozen
class Ebnf(_Spec):
    """Texts of a grammar in GBNF, the EBNF of llama.cpp and xgrammar; ``root`` names its start rule."""

    kind: ClassVar[str] = "ebnf"
    text: str = attrs.field(validator=_text)
    root: str = attrs.field(default="root", kw_only=True, validator=_text)

    def _language(self) -> tuple[str, ...]:
        return (self.text, self.root)


@attrs.frozen
class Lark(_Spec):
    """Texts of a grammar in Lark's syntax, from its ``start`` rule."""

    kind: ClassVar[str] = "lark"
    text: str = attrs.field(validator=_text)

    def _language(self) -> tuple[str, ...]:
        return (self.text,)


def _options(values: Iterable[str]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise TypeError("options are several texts, not one text")
    return tuple(values)


@attrs.frozen
class Choice(_Spec):
    """One of several texts, exactly as written. Order and repetition do not change the language or the key."""

    kind: ClassVar[str] = "choice"
    options: tuple[str, ...] = attrs.field(converter=_options, validator=attrs.validators.deep_iterable(_text))

    def _language(self) -> tuple[str, ...]:
        return tuple(sorted(set(self.options)))


@attrs.frozen
class StructuralTag(_Spec):
    """Free text in which tags open constrained spans: JSON text in xgrammar's ``structural_tag`` form."""

    kind: ClassVar[str] = "structural_tag"
    text: str = attrs.field(validator=_text)

    def _language(self) -> tuple[str, ...]:
        return (strip_json_whitespace(self.text),)


GrammarSpec: TypeAlias = JsonSchema | JsonObject | Regex | Ebnf | Lark | Choice | StructuralTag

SPEC_TYPES: tuple[type[GrammarSpec], ...] = (JsonSchema, JsonObject, Regex, Ebnf, Lark, Choice, StructuralTag)
SPEC_KINDS: tuple[str, ...] = tuple(spec_type.kind for spec_type in SPEC_TYPES)


def spec_to_json(spec: GrammarSpec) -> dict[str, Any]:
    """A spec as JSON-able data: its kind and its fields. For worker pipes and reports."""
    fields = attrs.asdict(spec, filter=lambda field, _value: field.init, value_serializer=_plain)
    return {"kind": spec.kind, **fields}


def spec_from_json(data: Mapping[str, Any]) -> GrammarSpec:
    """The inverse of `spec_to_json`. Raises KeyError, TypeError or ValueError on what it cannot have made."""
    fields = dict(data)
    spec_type = {each.kind: each for each in SPEC_TYPES}[fields.pop("kind")]
    if "serialization" in fields:
        fields["serialization"] = Serialization(**fields["serialization"])
    if "registry" in fields:
        fields["registry"] = [(uri, text) for uri, text in fields["registry"]]
    return spec_type(**fields)


def _plain(_spec: object, _field: object, value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value
