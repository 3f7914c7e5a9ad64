"""Loaders that read a model's tokens out of what its tokenizer comes as.

Each raises `structout.vocabulary.VocabularyError` and nothing else for what it cannot read. None needs the tokenizer's
library to be installed, beyond what its argument is already made of.

What holds for all of them: special tokens are CONTROL and have no bytes, so that no text in a grammar ever matches
them; tokens added by hand that are not special are ADDED and stand for their text; holes in the ids are ABSENT; columns
of the logits beyond the tokenizer's last id are padding, to be given as ``padded_size``.
"""

from structout.vocabularies.canonical import CanonicalTokens
from structout.vocabularies.gguf import from_gguf
from structout.vocabularies.huggingface import from_huggingface
from structout.vocabularies.tiktoken import from_tiktoken

__all__ = ["CanonicalTokens", "from_gguf", "from_huggingface", "from_tiktoken"]
