"""Corpora of labelled schemas: MaskBench, the official JSON-Schema-Test-Suite, and lines of cases."""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from structout.errors import describe_exception
from structout.spec import Choice, Dialect, Ebnf, FormatMode, GrammarSpec, JsonSchema, Regex, StructuralTag

REMOTES_URI = "http://localhost:1234/"
"""Where the official suite expects its ``remotes`` folder to be served."""
_DRAFTS = {
    "draft4": Dialect.DRAFT_4,
    "draft6": Dialect.DRAFT_6,
    "draft7": Dialect.DRAFT_7,
    "draft2019-09": Dialect.DRAFT_2019_09,
}
"""By the names of the official suite's folders; any other is taken for 2020-12."""


class CorpusError(ValueError):
    """A path that holds no corpus; says what would be one."""


@attrs.frozen
class Example:
    """One spec with labelled texts.

    Attributes:
        name: where it is from.
        spec: what is compiled.
        members: for each text of the language its forms; all but the first are the same value, written otherwise.
        strangers: the same for what is not of the language.
        part: of the corpus; the official suite has ``required`` and ``optional`` ones, other corpora only "".
    """

    name: str
    spec: GrammarSpec
    members: tuple[tuple[str, ...], ...]
    strangers: tuple[tuple[str, ...], ...]
    part: str = ""


def read(path: Path) -> Iterator[Example]:
    """The examples of a corpus, whose form is told from its path.

    A ``.jsonl.gz`` file or a folder of MaskBench has ``{name, schema, tests: [{valid, data}]}``; a ``.jsonl`` file has
    cases ``{id, kind, input, valid, invalid}`` whose instances are texts; any other folder is a draft's folder of the
    official suite.

    Raises:
        CorpusError: it is none of these, or something in it is not of the form.
    """
    try:
        yield from _examples(path)
    except CorpusError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, EOFError, zlib.error) as exc:
        raise CorpusError(f"{path} holds something that is no labelled schema: {describe_exception(exc)}") from exc


def _examples(path: Path) -> Iterator[Example]:
    if path.is_file() and path.name.endswith(".jsonl.gz"):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from (_maskbench(json.loads(line)) for line in lines)
    elif path.is_file() and path.suffix == ".jsonl":
        with path.open(encoding="utf-8") as lines:
            yield from (case for line in lines if (case := _case(json.loads(line))) is not None)
    elif path.is_dir() and any(path.glob("*.json")):
        yield from _folder(path)
    else:
        raise CorpusError(f"{path} is no corpus: give a .jsonl.gz or .jsonl file, or a folder of .json files")


def _folder(path: Path) -> Iterator[Example]:
    remotes = _remotes(path.parent.parent / "remotes")
    for file in sorted(path.rglob("*.json")):
        content = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(content, list):
            for number, group in enumerate(content):
                yield _suite(f"{file.relative_to(path).as_posix()}#{number}", group, path.name, remotes)
        elif content.get("tests"):
            yield _maskbench({"name": file.name} | content)


def _remotes(folder: Path) -> dict[str, str]:
    return {
        REMOTES_URI + file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8")
        for file in sorted(folder.rglob("*.json"))
    }


def _maskbench(data: Mapping[str, Any]) -> Example:
    return _labelled(data["name"], JsonSchema(_dump(data["schema"])), data["tests"])


def _suite(name: str, group: Mapping[str, Any], draft: str, remotes: Mapping[str, str]) -> Example:
    dialect = _DRAFTS.get(draft, Dialect.DRAFT_2020_12)
    mode = FormatMode.ASSERT if "optional/format" in name else FormatMode.ANNOTATE
    spec = JsonSchema(_dump(group["schema"]), dialect=dialect, format_mode=mode, registry=dict(remotes))
    part = "optional" if name.startswith("optional/") else "required"
    return attrs.evolve(_labelled(name, spec, group["tests"]), part=part)


def _labelled(name: str, spec: JsonSchema, tests: list[Mapping[str, Any]]) -> Example:
    texts: dict[bool, list[tuple[str, ...]]] = {True: [], False: []}
    for test in tests:
        texts[bool(test["valid"])].append((_dump(test["data"]), _dump(test["data"], separators=(",", ":"))))
    return Example(name, spec, tuple(texts[True]), tuple(texts[False]))


def _case(data: Mapping[str, Any]) -> Example | None:
    """A case with texts; None for one that is about something else."""
    spec = _spec(data)
    texts = [tuple((text,) for text in data.get(label, ())) for label in ("valid", "invalid")]
    return Example(data["id"], spec, texts[0], texts[1]) if spec is not None and any(texts) else None


def _spec(data: Mapping[str, Any]) -> GrammarSpec | None:
    given = data.get("input")
    text = given if isinstance(given, str) else _dump(given)
    match data["kind"]:
        case "json_schema":
            dialect = Dialect.DRAFT_7 if data.get("draft") == "7" else Dialect.DRAFT_2020_12
            return JsonSchema(text, dialect=dialect)
        case "regex" if isinstance(given, str):
            return Regex(given)
        case "ebnf" if isinstance(given, str):
            return Ebnf(given)
        case "choice" if isinstance(given, list) and all(isinstance(option, str) for option in given):
            return Choice(given)
        case "structural_tag":
            return StructuralTag(text)
    return None


def _dump(value: Any, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=False, **options)
