"""Models are found, converted once and loaded whole, or refused with what to do about it."""

import shutil
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, MistralConfig, MistralForCausalLM

from engine_adapter.embedded import pretrained
from engine_adapter.embedded.pretrained import Loaded, ModelLoadError, convert_gguf, load, packaged_folder

TOKENS = ["<s>", "</s>", *map(chr, range(33, 127)), "Ġ", "he", "ll"]
QUESTIONS = ("What is the capital of France?", "Count to twenty.")
LAYERS, HIDDEN, HEADS, KV_HEADS, INNER, CONTEXT = 2, 64, 4, 2, 96, 40


@pytest.fixture(scope="module")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of random weights with a byte-level BPE of a few tokens, as llama.cpp would store it."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3] + [1] * (len(TOKENS) - 2))
    writer.add_token_merges(["h e", "l l"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_chat_template("{% for message in messages %}{{ message.content }}{% endfor %}")
    for name, shape in tiny_shapes().items():
        writer.add_tensor(name, np.random.default_rng(len(name)).standard_normal(shape, dtype=np.float32) / 4)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tiny_shapes() -> dict[str, tuple[int, ...]]:
    kv = HIDDEN * KV_HEADS // HEADS
    layer: dict[str, tuple[int, ...]] = {
        "attn_norm": (HIDDEN,),
        "attn_q": (HIDDEN, HIDDEN),
        "attn_k": (kv, HIDDEN),
        "attn_v": (kv, HIDDEN),
        "attn_output": (HIDDEN, HIDDEN),
        "ffn_norm": (HIDDEN,),
        "ffn_gate": (INNER, HIDDEN),
        "ffn_up": (INNER, HIDDEN),
        "ffn_down": (HIDDEN, INNER),
    }
    blocks = {f"blk.{index}.{name}.weight": shape for index in range(LAYERS) for name, shape in layer.items()}
    return {"token_embd.weight": (len(TOKENS), HIDDEN), "output_norm.weight": (HIDDEN,), **blocks}


@pytest.fixture(scope="module")
def tiny_folder(tiny_gguf: Path) -> Path:
    """The same model, converted."""
    folder = tiny_gguf.with_name("folder")
    done: list[float] = []
    convert_gguf(tiny_gguf, folder, done.append)
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0.0, 1.0)
    return folder


def changed(folder: Path, target: Path) -> Path:
    """A copy to make wrong."""
    return Path(shutil.copytree(folder, target / "changed"))


def test_a_converted_model_is_the_same_model(tiny_gguf: Path, tiny_folder: Path) -> None:
    original = AutoModelForCausalLM.from_pretrained(tiny_gguf.parent, gguf_file=tiny_gguf.name, dtype=torch.float32)
    converted = load(str(tiny_folder), max_rows=1, max_len=10)
    tokens = converted.tokenizer("hello he").input_ids
    assert [TOKENS[token] for token in tokens] == ["he", "ll", "o", "Ġ", "he"]
    expected = original(input_ids=torch.tensor([tokens])).logits[0, -1]
    torch.testing.assert_close(converted.runner.prefill(0, tokens, 0), expected, atol=1e-4, rtol=1e-4)


def test_what_is_known_of_a_loaded_model(tiny_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[str, float]] = []
    loaded = load(str(tiny_folder), max_rows=3, max_len=1000, progress=lambda *report: seen.append(report))
    runner = loaded.runner
    assert (runner.max_rows, runner.max_len, runner.logit_width) == (3, CONTEXT, len(TOKENS))
    assert (loaded.name, loaded.eos_token_ids, loaded.has_chat_template) == (str(tiny_folder), (1,), True)
    assert {stage for stage, _ in seen} == {"loading"}
    assert (seen[0][1], seen[-1][1]) == (0.0, 1.0)
    assert "Loading" not in "".join(capfd.readouterr()), "a bar was drawn beside the caller's own"


def test_a_model_runs_in_the_precision_that_is_asked_for(tiny_folder: Path) -> None:
    tokens = list(range(2, 20))
    full, half = (
        load(str(tiny_folder), max_rows=1, max_len=20, dtype=dtype).runner.prefill(0, tokens, 0)
        for dtype in (None, torch.bfloat16)
    )
    assert 1e-4 < (full - half).abs().max() < 0.3 * full.std()


def test_a_file_that_is_no_model_fails_with_the_cause(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF but not much more")
    with pytest.raises(ModelLoadError, match=r"^broken\.gguf could not be converted: \S*[Ee]rror: "):
        convert_gguf(tmp_path / "broken.gguf", tmp_path / "folder", lambda done: None)


def test_missing_weights_are_refused_and_not_made_up(tiny_folder: Path, tmp_path: Path) -> None:
    folder = changed(tiny_folder, tmp_path)
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelLoadError, match=r"lacks weights: model\.layers\.1\.mlp\.up_proj\.weight"):
        load(str(folder), max_rows=1, max_len=10)


def test_a_model_of_another_kind_is_refused_with_the_reason(tiny_folder: Path, tmp_path: Path) -> None:
    folder = changed(tiny_folder, tmp_path)
    config = MistralConfig.from_pretrained(tiny_folder, sliding_window=8)
    MistralForCausalLM(config).save_pretrained(folder)
    with pytest.raises(ModelLoadError, match=r"Mistral.* needs caches of other kinds: .*SlidingWindow"):
        load(str(folder), max_rows=1, max_len=10)


def test_each_way_of_naming_nothing_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusal(model: str, device: str = "cpu") -> str:
        with pytest.raises(ModelLoadError) as caught:
            load(model, max_rows=1, max_len=10, device=device)
        assert caught.value.hint
        assert "\n" not in str(caught.value)
        return caught.value.message

    assert refusal("./nowhere") == "./nowhere has no config.json"
    assert refusal(str(tmp_path)) == f"{tmp_path} has no config.json"
    assert refusal("nobody/has-this-model").startswith("nobody/has-this-model could not be loaded: ")
    assert refusal("smollm2", device="nonsense").startswith("no device 'nonsense' here: ")
    monkeypatch.setattr(pretrained, "_PACKAGE", "a-package-that-is-not-installed")
    assert refusal("smollm2") == "smollm2 needs the package a-package-that-is-not-installed"


@pytest.fixture(scope="module")
def smollm2() -> Loaded:
    return load("smollm2", max_rows=2, max_len=256)


@pytest.mark.model
def test_the_packaged_model_is_converted_once(smollm2: Loaded) -> None:
    before = packaged_folder().stat()
    stages: set[str] = set()
    load("smollm2", max_rows=1, max_len=16, progress=lambda stage, done: stages.add(stage))
    after = packaged_folder().stat()
    assert stages == {"loading"}
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.model
def test_the_packaged_model_continues_as_with_transformers(smollm2: Loaded) -> None:
    runner, tokenizer = smollm2.runner, smollm2.tokenizer
    prompts = [
        tokenizer(f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n").input_ids for text in QUESTIONS
    ]
    for index, prompt in enumerate(prompts):
        runner.prefill(index, prompt[:5], 0)
        runner.prefill(index, prompt[5:-1], 5)
    rows = [[prompt[-1]] for prompt in prompts]
    for _ in range(24):
        for row, token in zip(rows, runner.decode([row[-1:] for row in rows]).argmax(-1).tolist(), strict=True):
            row.append(token)
    model = AutoModelForCausalLM.from_pretrained(packaged_folder(), dtype=torch.float32)
    expected = [generated(model, prompt, 24) for prompt in prompts]
    assert [row[1 : 1 + len(tokens)] for row, tokens in zip(rows, expected, strict=True)] == expected
    assert "Paris" in tokenizer.decode(rows[0])


def generated(model: Any, prompt: list[int], count: int) -> list[int]:
    """What transformers' own loop adds to the prompt, always taking the likeliest token, up to the end of the turn."""
    tokens: torch.Tensor = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=count)
    return [int(token) for token in tokens[0, len(prompt) :]]
