"""The manual is true: its examples run, its reference is the code's, its links lead somewhere."""

import asyncio
import importlib.util
import linecache
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from engine_adapter.serve.running import RunningEngine
from structout import hookspecs
from tests.fakes import BYTES, TrieBackend
from tests.serve.process import structout_serve
from tests.serve.support import scripted_engine, served_by

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
CURL = re.compile(r"^\$ (curl [^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SERVED_AT = "http://127.0.0.1:8000"
LINK = re.compile(r"\]\(([^)#:]+)\)")


def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_reference", ROOT / "docs" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_example_runs(page: Path) -> None:
    """The examples of a page build on each other; the README's start from a vocabulary, a row and a backend."""
    if page.name == "reference.md":
        pytest.skip("signatures, not examples")
    if page.name in ("grpc.md", "serving.md"):
        pytest.skip("asks a server: see below")
    run_examples(page, page.read_text(encoding="utf-8"))


@pytest.mark.long
@pytest.mark.model
def test_every_example_of_serving_runs() -> None:
    """Its examples ask a real server; what ``curl`` prints is as it is printed there."""
    page = ROOT / "docs" / "serving.md"
    with structout_serve() as server:
        text = page.read_text(encoding="utf-8").replace(SERVED_AT, server.address)
        run_examples(page, text)
        commands = CURL.findall(text)
        assert commands
        for command, printed in commands:
            assert subprocess.check_output(command, shell=True, text=True) == printed


def test_every_example_of_grpc_runs() -> None:
    """They start from a model that is served, and whose engine runs."""
    page = ROOT / "docs" / "grpc.md"
    engine = scripted_engine()
    running = RunningEngine(engine)
    running.start()
    try:
        run_examples(page, page.read_text(encoding="utf-8"), served=served_by(running))
    finally:
        asyncio.run(running.close(0.0))
        engine.close()


def run_examples(page: Path, text: str, **names: Any) -> None:
    """Runs them in a module of their own, which has ``names`` too."""
    module = ModuleType(f"manual_{page.stem}")  # a page may have the name of a package
    vars(module).update(vocabulary=BYTES, row=np.zeros(BYTES.bitmask_width, np.int32), create_backend=TrieBackend)
    vars(module).update(names)
    sys.modules[module.__name__] = module
    try:
        for number, example in enumerate(EXAMPLE.findall(text)):
            # Hypothesis reads the source of a test, and would look for it in the page's Markdown.
            name = f"<{page.name}, example {number}>"
            linecache.cache[name] = (len(example), None, example.splitlines(keepends=True), name)
            exec(compile(example, name, "exec"), vars(module))
    finally:
        del sys.modules[module.__name__]


def test_the_reference_is_up_to_date() -> None:
    module = reference()
    written = module.TARGET.read_text(encoding="utf-8")
    assert written == module.render(), "run: python docs/reference.py"


def test_every_hook_is_in_the_reference() -> None:
    text = reference().render()
    for name in vars(hookspecs):
        assert not name.startswith("structout_") or f"`{name}`" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
