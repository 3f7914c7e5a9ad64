"""Makes a Hugging Face folder, which loads in seconds, of a GGUF file, which takes transformers far longer.

Run as a program, ``python -m engine_adapter.embedded.convert GGUF FOLDER``: so the memory goes back when it is done,
it can be killed, and the bars that transformers draws reach nobody's terminal. It prints ``progress 0.35`` lines.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

PROGRESS = "progress "
"""Begins the lines of output that tell how far the conversion is, as a fraction of 1."""


def convert(source: Path, target: Path, report: Callable[[float], None]) -> None:
    """Writes the tokenizer and the model, in float32, of the GGUF file `source` into the folder `target`.

    `report` is called with the part that is done, by the time it takes.
    """
    report(0.0)
    AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(target)
    report(0.35)
    loaded = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    report(0.9)
    _plain(loaded).save_pretrained(target)
    report(1.0)


def _plain(loaded: PreTrainedModel) -> PreTrainedModel:
    """The same weights in a model that does not know of GGUF: transformers refuses to save one that does."""
    settings = loaded.config.to_dict()
    settings.pop("quantization_config")
    plain = type(loaded)(type(loaded.config).from_dict(settings))
    plain.load_state_dict(loaded.state_dict())
    plain.generation_config = loaded.generation_config
    return plain


def main() -> None:
    """Converts what the command line names."""
    source, target = map(Path, sys.argv[1:])
    convert(source, target, lambda done: print(f"{PROGRESS}{done}", flush=True))


if __name__ == "__main__":
    main()
