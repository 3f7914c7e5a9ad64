"""``structout new-plugin``: writes an installable project for a backend of one's own."""

import sys
from collections.abc import Iterator
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import Final

from structout.backend import API_VERSION, Backend, BackendInfo
from structout.discovery import discover
from structout.errors import ErrorKind, GrammarError
from structout.result import Err, Ok, Result
from structout.vocabulary import Vocabulary

TEMPLATES: Final = files("structout.cli") / "templates" / "new_plugin"
"""The project's files. A ``PACKAGE`` in a path stands for the import package's name; the last suffix is dropped, which
keeps tools from taking them for files of their own."""


def run(name: str, into: Path) -> int:
    """Writes the project and says what to do with it. Returns the exit code: 0, or 2 for the caller's fault."""
    match create(name, into):
        case Ok(folder):
            print(f"{folder} is a plugin with a backend {name!r} that works. Next:\n")
            print(f"  cd {folder}\n  python -m pip install -e '.[dev]'\n  python -m pytest\n  structout backends")
            return 0
        case Err(error):
            print(error, file=sys.stderr)
            return error.consequence.exit_code
    raise AssertionError("a result is Ok or Err")


def create(name: str, into: Path) -> Result[Path, GrammarError]:
    """Writes the project for a backend of that id into a new folder in ``into``, and returns the folder."""
    folder = into / distribution_name(name)
    return _checked(name, folder).and_then(lambda _: _written(name, folder))


def distribution_name(name: str) -> str:
    """Name of the distribution, and of its folder, of a backend's plugin."""
    return "-".join(["structout", *filter(None, name.split("_"))])


def package_name(name: str) -> str:
    """Name of the import package of a backend's plugin."""
    return f"structout_{name}"


def _checked(name: str, folder: Path) -> Result[None, GrammarError]:
    try:
        BackendInfo(id=name, create=_no_backend, spec_kinds={"choice"})
    except ValueError:
        hint = "begin with a letter, and use lower-case letters, digits and underscores"
        return _invalid(f"{name!r} cannot be the id of a backend", hint)
    if taken := discover().backends.get(name):
        who = taken.distribution or "this process"
        return _invalid(f"there is a backend {name} already, of {who}", "take another name: two of one id are unusable")
    if folder.exists() or folder.is_symlink():
        return _invalid(f"{folder} exists already", "take another name, or another folder with --into")
    return Ok(None)


def _no_backend(_vocabulary: Vocabulary) -> Backend:
    """In place of a factory, to have the rules for ids checked where they are written down."""
    raise AssertionError("it is never called")


def _written(name: str, folder: Path) -> Result[Path, GrammarError]:
    try:
        folder.mkdir(parents=True)
        for path, text in rendered(name):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    except OSError as exc:
        return _invalid(f"{exc.filename or folder}: {exc.strerror}", "choose a folder that can be written, with --into")
    return Ok(folder)


def rendered(name: str) -> Iterator[tuple[Path, str]]:
    """The path of every file of the project, relative to its folder, and the file's text."""
    values = {
        "name": name,
        "package": package_name(name),
        "distribution": distribution_name(name),
        "api_version": str(API_VERSION),
        "structout_version": version("structout"),
    }
    for path, template in _files(TEMPLATES, Path()):
        target = Path(*(part.replace("PACKAGE", values["package"]) for part in path.with_suffix("").parts))
        yield target, Template(template.read_text(encoding="utf-8")).substitute(values)


def _files(folder: Traversable, path: Path) -> Iterator[tuple[Path, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.is_dir():
            yield from _files(entry, path / entry.name)
        else:
            yield path / entry.name, entry


def _invalid(message: str, hint: str) -> Err[GrammarError]:
    return Err(GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, hint=hint))
