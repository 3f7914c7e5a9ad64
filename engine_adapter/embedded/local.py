"""A model in this process, ready for requests: weights, vocabulary, compile service and engine put together."""

import atexit
import functools
import gc
import sys
from typing import Final

import attrs

from engine_adapter.embedded.engine import Engine
from engine_adapter.embedded.pretrained import Loaded, Progress, load
from engine_adapter.filling.isolation import Isolation
from engine_adapter.filling.risky import RiskyGrammars
from engine_adapter.terminal import TerminalRule, usable
from structout.compile import CompileService, GrammarStore
from structout.compile.sandbox import Sandbox
from structout.discovery import Registry, discover
from structout.observability.sources import NO_OBSERVER, Observer
from structout.processes.usage import share_freed_memory
from structout.vocabularies import CanonicalTokens, from_huggingface
from structout.vocabulary import Vocabulary

SWITCH_S: Final = 0.0005
"""Seconds that a thread may keep Python's lock while others wait for it; 5 ms if nobody says otherwise."""

_SANDBOX_S: Final = 60.0
"""How long the processes of a sandbox are waited for: what keeps them from starting is told to whoever needs one."""


@attrs.frozen(eq=False)
class Local:
    """What `open_local` puts together; `close` ends its threads and processes."""

    loaded: Loaded
    vocabulary: Vocabulary
    service: CompileService
    engine: Engine
    sandbox: Sandbox | None = None
    isolation: Isolation | None = None

    def encode_turn(self, text: str) -> tuple[int, ...]:
        """Token ids of a conversation in which a user says ``text`` and the model is to answer.

        Laid out by the model's chat template; the text itself where it has none.
        """
        tokenizer = self.loaded.tokenizer
        if not self.loaded.has_chat_template:
            return tuple(tokenizer.encode(text))
        turn = [{"role": "user", "content": text}]
        laid_out = tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
        return tuple(tokenizer.encode(laid_out, add_special_tokens=False))

    def close(self) -> None:
        self.engine.close()
        self.service.close()
        if self.isolation is not None:
            self.isolation.close()
        if self.sandbox is not None:
            self.sandbox.close()


def open_local(
    model: str,
    *,
    max_rows: int = 32,
    max_len: int = 2048,
    device: str = "cpu",
    registry: Registry | None = None,
    sandbox_workers: int = 0,
    store: GrammarStore | None = None,
    mask_budget_s: float = 0.05,
    max_misses: int = 8,
    terminal_rule: TerminalRule = usable,
    force_tokens: bool = True,
    observer: Observer = NO_OBSERVER,
    progress: Progress | None = None,
) -> Local:
    """Loads a model and all backends that may be chosen, and makes an engine for it. What the process holds by then is
    out of the garbage collector's sight from there on (`gc.freeze`), threads take Python's lock from one another more
    often (`sys.setswitchinterval`), and what one has freed another may use (glibc's ``M_ARENA_MAX``).

    Args:
        model: "smollm2", a folder or a hub id.
        max_rows: how many sequences run at once.
        max_len: most tokens of a sequence, prompt and answer; less if the model takes less.
        device: as torch names devices.
        registry: the backends; those that are installed when not given. With a sandbox they have to be installed.
        sandbox_workers: how many processes try risky grammars; those that prove slow get processes of their own then.
            With 0 every grammar is compiled in this process.
        store: keeps grammars on disk for the next start, those that are quicker to read than to compile.
        mask_budget_s, max_misses, terminal_rule: see `Engine`.
        force_tokens: whether tokens are appended without being sampled where a grammar leaves one text. That is looked
            for on the engine's thread, and it takes a sandbox to know which grammars are too slow for that.
        observer: is told how long each request waits for its grammar.
        progress: called as loading goes on.

    Raises:
        ModelLoadError: there is no such model, or it cannot run here.
        VocabularyError: its tokenizer is of no known family.
    """
    share_freed_memory()
    loaded = load(model, max_rows=max_rows, max_len=max_len, device=device, progress=progress)
    vocabulary = from_huggingface(
        loaded.tokenizer, eos_token_ids=loaded.eos_token_ids, padded_size=loaded.runner.logit_width
    )
    registry = registry or discover()
    chosen = [backend for backend, registered in registry.backends.items() if not registered.info.by_name_only]
    sandbox = Sandbox(registry, vocabulary, workers=sandbox_workers, warm=chosen) if sandbox_workers else None
    isolation = Isolation(functools.partial(RiskyGrammars, registry, vocabulary)) if sandbox_workers else None
    isolate = isolation.compile if isolation else None
    service = CompileService(registry, vocabulary, sandbox=sandbox, isolate=isolate, store=store, observer=observer)
    engine = Engine(
        loaded.runner,
        service,
        mask_budget_s=mask_budget_s,
        max_misses=max_misses,
        terminal_rule=terminal_rule,
        canonical=CanonicalTokens(loaded.tokenizer, vocabulary) if force_tokens else None,
    )
    for backend in chosen:
        service.backend(backend)  # what does not start says so to whoever asks for it
    if sandbox is not None:
        sandbox.wait_until_full(_SANDBOX_S)  # or the first requests would have to, within their deadlines
    # Libraries, model and vocabulary are a million objects that stay. To go through them all, as the garbage collector
    # does whenever requests have made enough of their own, would stop every thread for more than half a second.
    gc.freeze()
    # A step asks for Python's lock some ten times, and each time another thread may keep it for that long.
    sys.setswitchinterval(SWITCH_S)
    atexit.register(gc.unfreeze)  # or what is left at the end is never freed, and libraries complain of leaks
    return Local(loaded, vocabulary, service, engine, sandbox, isolation)
