"""The shared corpora: where they lie, and how they are read.

They are no part of the package. They are looked for in the folder that the environment variable `STRUCTOUT_CORPORA`
names, else in `shared` beside the checkout; a test that asks for one that is not there is skipped, with the reason.
"""

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NotRequired, TypeAlias, TypedDict

import pytest

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Draft: TypeAlias = Literal["draft7", "draft2020-12"]

# Where the official suite expects its remote schemas to be served.
REMOTES_URI = "http://localhost:1234/"


class Instance(TypedDict):
    """A JSON value and whether the schema it belongs to allows it."""

    valid: bool
    data: Json


class LabelledSchema(TypedDict):
    """A schema of MaskBench."""

    name: str
    schema: Json
    tests: list[Instance]


class SuiteInstance(Instance):
    """An instance of the official suite."""

    description: str


class SuiteGroup(TypedDict):
    """A schema of the official suite, with the file it is from, relative to its draft's folder."""

    file: str
    description: str
    schema: Json
    tests: list[SuiteInstance]


# "class" is a keyword, hence the functional form. What `input` is depends on `kind`: a schema (as object or text), a
# pattern, a grammar, a list of choices (absent: empty), or for the kind engine a script of requests. `valid`
# and `invalid` are texts.
Case = TypedDict(
    "Case",
    {
        "id": str,
        "source": str,
        "class": str,
        "symptom": str,
        "kind": Literal["json_schema", "regex", "ebnf", "choice", "structural_tag", "engine"],
        "input": NotRequired[Json],
        "draft": NotRequired[Literal["2020-12", "7"]],
        "valid": NotRequired[list[str]],
        "invalid": NotRequired[list[str]],
        "expect": str,
        "observed": NotRequired[dict[str, str]],
        "note": NotRequired[str],
    },
)


def maskbench() -> Iterator[LabelledSchema]:
    """The MaskBench sample: 1,500 schemas in a fixed order, with valid and invalid instances."""
    with gzip.open(maskbench_file(), "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def maskbench_file() -> Path:
    """The file of the MaskBench sample."""
    return _find("corpora/maskbench/sample.jsonl.gz")


def cases() -> Iterator[Case]:
    """Small inputs that public bug reports of grammar backends and engines come down to."""
    with _find("cases/cases.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def json_schema_test_suite(draft: Draft, *, optional: bool = False) -> Iterator[SuiteGroup]:
    """The groups of one draft of the official JSON-Schema-Test-Suite, file by file in the order of their names.

    Its required part, or with `optional` its optional part alone. A schema that names no `$schema` is in the draft's
    dialect, which the schema itself does not say.
    """
    folder = _find(f"corpora/json-schema-test-suite/tests/{draft}")
    for file in sorted(folder.glob("optional/**/*.json" if optional else "*.json")):
        for group in json.loads(file.read_text(encoding="utf-8")):
            yield SuiteGroup(
                file=file.relative_to(folder).as_posix(),
                description=group["description"],
                schema=group["schema"],
                tests=group["tests"],
            )


def suite_remotes() -> dict[str, Json]:
    """The remote schemas that the official suite refers to, by URI."""
    folder = _find("corpora/json-schema-test-suite/remotes")
    return {
        REMOTES_URI + file.relative_to(folder).as_posix(): json.loads(file.read_text(encoding="utf-8"))
        for file in sorted(folder.rglob("*.json"))
    }


def _find(relative: str) -> Path:
    path = _root() / relative
    if not path.exists():
        pytest.skip(f"no corpus at {path}: set STRUCTOUT_CORPORA to the folder that holds {relative}")
    return path


def _root() -> Path:
    beside_checkout = Path(__file__).resolve().parents[2] / "shared"
    return Path(os.environ.get("STRUCTOUT_CORPORA") or beside_checkout)
