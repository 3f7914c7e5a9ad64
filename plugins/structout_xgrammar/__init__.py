"""The xgrammar backend: the most kinds of grammars, and fast masks once compiled."""

from collections.abc import Iterable
from pathlib import Path

from structout.backend import Backend, BackendInfo
from structout.hookspecs import hookimpl
from structout.vocabulary import Vocabulary
from structout_xgrammar.errors import BACKEND
from structout_xgrammar.translation import refusal


def _create(vocabulary: Vocabulary) -> Backend:
    from structout_xgrammar.backend import XgrammarBackend

    return XgrammarBackend(vocabulary)


@hookimpl
def structout_register_backends() -> Iterable[BackendInfo]:
    return [
        BackendInfo(
            id=BACKEND,
            create=_create,
            spec_kinds={"json_schema", "json_object", "regex", "ebnf", "lark", "choice", "structural_tag"},
            requires=["xgrammar>=0.2.9,<0.3"],
            refusal=refusal,
            description="pushdown automata, compiled ahead for the vocabulary: every kind of grammar, and fast masks",
            install_hint="pip install 'structout[xgrammar]'",
            known_faults=Path(__file__).with_name("known_faults.json"),
            capabilities=Path(__file__).with_name("capabilities.json"),
        )
    ]
