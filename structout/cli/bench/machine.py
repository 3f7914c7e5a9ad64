"""On what it was measured: figures say little without it."""

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Final

_PACKAGES: Final = ("numpy", "torch", "xgrammar", "llguidance", "outlines_core", "transformers")


def describe(threads: str) -> dict[str, str]:
    """The processor, the system, and the versions of what takes part; ``threads`` says how many were used."""
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores, {threads}",
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "packages": ", ".join(f"{name} {version}" for name in _PACKAGES if (version := _version(name))),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
