"""Of real documents with fixed separators at least a quarter of the tokens is forced, all of them canonical."""

import pytest

pytest.importorskip("tokenizers")

from benchmarks.forced_tokens import counted, labelled
from structout.discovery import discover
from structout.grammar import BoundBackend
from structout.vocabularies import CanonicalTokens, from_huggingface
from tests.corpora import maskbench_file

pytestmark = pytest.mark.long


@pytest.mark.parametrize("backend", ["xgrammar", "llguidance"])
def test_forced_tokens_save_steps_and_are_canonical(backend: str) -> None:
    transformers = pytest.importorskip("transformers")
    from engine_adapter.embedded.pretrained import ModelLoadError, packaged_folder

    file = maskbench_file()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(packaged_folder())
    except ModelLoadError as error:
        pytest.skip(str(error))
    vocabulary = from_huggingface(tokenizer)
    registered = discover().find(backend).unwrap()
    bound = BoundBackend.create(registered.info, registered.distribution, vocabulary).unwrap()
    counts = counted(bound, CanonicalTokens(tokenizer, vocabulary), labelled(file), texts=100)
    assert counts.texts == 100
    assert counts.not_canonical == 0
    assert counts.forced >= 0.25 * counts.steps
