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
``test_apply_grammar_bitmask``                             ``tests/vllm/test_applying.py``, for logits on the CPU
=========================================================  ==========================================================
"""

import pytest

from engine_adapter.embedded.pretrained import packaged_folder
from tests.engines.vllm import run

pytestmark = [pytest.mark.engines, pytest.mark.model]


def test_every_contract_is_kept(tmp_path_factory: pytest.TempPathFactory) -> None:
    results = run("vllm_contracts.py", str(packaged_folder()), cwd=tmp_path_factory.mktemp("vllm"))
    broken = {name: how for name, how in results.items() if how != "kept"}
    assert not broken, "\n\n".join(f"{name}: {how}" for name, how in broken.items())


def test_no_field_of_vllms_is_taken_for_a_misspelt_constraint(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert run("vllm_fields.py", cwd=tmp_path_factory.mktemp("vllm")) == []
