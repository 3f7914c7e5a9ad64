"""One example for the oracles: a spec, texts that are of its language, and texts that are not."""

from collections.abc import Mapping
from typing import Any

import attrs

from structout.spec import GrammarSpec, spec_from_json, spec_to_json


@attrs.frozen
class Text:
    """A text whose membership is known.

    Attributes:
        text: the text, without surrogates.
        note: of a member, how it is written (``"plain"``, ``"reordered"``, ...); of a stranger, what alone keeps it
            out: the JSON Schema keyword that it violates, or ``"syntax"``.
    """

    text: str
    note: str


@attrs.frozen
class Case:
    """What one run of the oracles is about.

    Attributes:
        spec: what is compiled.
        members: texts of its language, as its serialization policy writes them.
        strangers: texts that are not of its language.
        seed: decides the random walks and tokenizations.
        name: where it comes from, for reports; "" for a generated one.
    """

    spec: GrammarSpec
    members: tuple[Text, ...] = ()
    strangers: tuple[Text, ...] = ()
    seed: int = 0
    name: str = ""

    def to_json(self) -> dict[str, Any]:
        """JSON-able data."""
        return attrs.asdict(self, recurse=False) | {
            "spec": spec_to_json(self.spec),
            "members": [attrs.astuple(text) for text in self.members],
            "strangers": [attrs.astuple(text) for text in self.strangers],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Case":
        """The inverse of `to_json`. Raises KeyError, TypeError or ValueError on what it cannot have made."""
        fields = dict(data)
        return cls(
            spec=spec_from_json(fields.pop("spec")),
            members=tuple(Text(*text) for text in fields.pop("members")),
            strangers=tuple(Text(*text) for text in fields.pop("strangers")),
            **fields,
        )
