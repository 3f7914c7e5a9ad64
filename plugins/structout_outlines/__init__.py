"""The outlines backend: regular expressions, and what JSON Schema is without recursion, as an index of every state."""

from collections.abc import Iterable
from pathlib import Path

from structout.backend import Backend, BackendInfo
from structout.hookspecs import hookimpl
from structout.vocabulary import Vocabulary
from structout_outlines.refusals import BACKEND, refusal


def _create(vocabulary: Vocabulary) -> Backend:
    from structout_outlines.backend import OutlinesBackend

    return OutlinesBackend(vocabulary)


@hookimpl
def structout_register_backends() -> Iterable[BackendInfo]:
    return [
        BackendInfo(
            id=BACKEND,
            create=_create,
            spec_kinds={"json_schema", "regex", "choice"},
            requires=("outlines_core>=0.2.14,<0.3",),
            refusal=refusal,
            description="Finite automata, every token's transition computed beforehand: slow to compile, fast to use",
            install_hint="pip install 'structout[outlines]'",
            capabilities=Path(__file__).with_name("capabilities.json"),
        )
    ]
