"""What importing the core costs: no backend, no torch, no engine."""

import subprocess
import sys

HEAVY = (
    *("torch", "transformers", "xgrammar", "llguidance", "outlines_core"),
    *("jsonschema_rs", "hypothesis", "engine_adapter"),
)


def loaded_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint('\\n'.join({{name.partition('.')[0] for name in sys.modules}}))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_importing_structout_loads_nothing_heavy() -> None:
    assert loaded_after("import structout").isdisjoint(HEAVY)


def test_discovering_the_backends_loads_none_of_them() -> None:
    found = loaded_after("from structout.discovery import discover; assert discover().backends")
    assert found.isdisjoint(HEAVY)
