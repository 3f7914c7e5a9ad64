"""The llguidance backend: starts at once, refuses what it cannot enforce, and shares its lexer between sequences."""

from collections.abc import Iterable
from pathlib import Path

from structout.backend import Backend, BackendInfo
from structout.hookspecs import hookimpl
from structout.vocabulary import Vocabulary
from structout_llguidance.refusals import refusal


def _create(vocabulary: Vocabulary) -> Backend:
    from structout_llguidance.backend import LlguidanceBackend

    return LlguidanceBackend.create(vocabulary)


@hookimpl
def structout_register_backends() -> Iterable[BackendInfo]:
    return [
        BackendInfo(
            id="llguidance",
            create=_create,
            spec_kinds={"json_schema", "json_object", "regex", "lark", "choice", "structural_tag"},
            requires=("llguidance>=1.9,<2",),
            refusal=refusal,
            description="An Earley parser over a lazy lexer: starts at once, and refuses what it cannot enforce",
            install_hint="pip install 'structout[llguidance]'",
            known_faults=Path(__file__).with_name("known_faults.json"),
            capabilities=Path(__file__).with_name("capabilities.json"),
        )
    ]
