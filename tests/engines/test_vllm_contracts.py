"""The contracts that vLLM's own tests hold its grammar backends to, rewritten from what they assert, on ours.

=========================================================  ==========================================================
vLLM's test                                                here
=========================================================  ==========================================================
``test_structured_output_manager``                         ``scripts/vllm_contracts.py``
``test_request``: pending is not ready                     ``tests/vllm/test_held.py``
``test_request``: a time-out is a failure;                 ``tests/compile/test_service.py``: deadlines are of the
``test_compilation_deadline``,                             compile service, which knows no vLLM;
``test_regex_compilation_timeout``                         ``tests/compile/test_sandbox.py``: what hangs is killed
``test_validation``: degenerate parameters                 ``tests/vllm/test_asking.py``, ``test_plugin.py``
``test_validation``: fallback, mixed backends              ``test_vllm_in_process.py``
``test_structured_output_grammar_failure``                 ``test_vllm_in_process.py``
``test_apply_grammar_bitmask``                             does not apply: masks are applied by vLLM's own code
=========================================================  ==========================================================
"""

import json
import subprocess

import pytest

from engine_adapter.embedded.pretrained import packaged_folder
from tests.engines.vllm import LIMIT_S, SCRIPTS, environment, python

pytestmark = [pytest.mark.engines, pytest.mark.model]


def test_every_contract_is_kept(tmp_path_factory: pytest.TempPathFactory) -> None:
    finished = subprocess.run(
        [python(), str(SCRIPTS / "vllm_contracts.py"), str(packaged_folder())],
        env=environment(),
        cwd=tmp_path_factory.mktemp("vllm"),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-6000:]
    broken = {name: how for name, how in json.loads(finished.stdout.splitlines()[-1]).items() if how != "kept"}
    assert not broken, "\n\n".join(f"{name}: {how}" for name, how in broken.items())
