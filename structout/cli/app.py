"""The commands and their options; what they do is in the modules named after them.

The modules of the commands that run a model are imported when they are called: the others do without torch.
"""

from pathlib import Path
from typing import Annotated

import typer

from structout.cli import backends as backends_command
from structout.cli import new_plugin as new_plugin_command

app = typer.Typer(
    help="Structured output for LLM serving: any grammar backend, chosen per request, enforced exactly or refused.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

bench = typer.Typer(help="Measure structout beside its peers.", no_args_is_help=True)
app.add_typer(bench, name="bench")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Backends = Annotated[
    list[str] | None, typer.Option(help="Backend to test, may be repeated; all that could be when not given.")
]
Plugins = Annotated[
    list[str] | None, typer.Option(help="MODULE:ATTRIBUTE of a plugin that is not installed, may be repeated.")
]
Model = Annotated[str, typer.Option(help="smollm2 (packaged), a folder of a Hugging Face model, or a hub id.")]


@app.command()
def backends(as_json: AsJson = False) -> None:
    """List the grammar backends that are installed, and why others are not there."""
    raise typer.Exit(backends_command.run(as_json=as_json))


@app.command()
def generate(
    prompt: Annotated[str, typer.Option(help="What to say to the model.")],
    schema: Annotated[Path | None, typer.Option(help="File with a JSON Schema that the answer has to satisfy.")] = None,
    regex: Annotated[str | None, typer.Option(help="Regular expression that the answer has to match.")] = None,
    choice: Annotated[str | None, typer.Option(help="Answers to choose from, separated by commas.")] = None,
    ebnf: Annotated[Path | None, typer.Option(help="File with a grammar in GBNF.")] = None,
    lark: Annotated[Path | None, typer.Option(help="File with a grammar in Lark's syntax.")] = None,
    model: Model = "smollm2",
    backend: Annotated[
        str | None, typer.Option(help="Backend that has to enforce it; the first that takes it when not given.")
    ] = None,
    best_effort: Annotated[
        bool, typer.Option("--best-effort", help="Take a backend that enforces only a part, and say which part.")
    ] = False,
    n: Annotated[int, typer.Option(help="How many answers.")] = 1,
    seed: Annotated[int | None, typer.Option(help="Makes the answers repeatable.")] = None,
    temperature: Annotated[float, typer.Option(help="0 takes the most likely token.")] = 1.0,
    max_tokens: Annotated[int, typer.Option(help="Most tokens of an answer.")] = 256,
    as_json: AsJson = False,
) -> None:
    """Generate text that satisfies a constraint, or say why it cannot be."""
    from structout.cli import generate as generate_command

    options = generate_command.Options(
        prompt=prompt,
        schema=schema,
        regex=regex,
        choice=choice,
        ebnf=ebnf,
        lark=lark,
        model=model,
        backend=backend,
        best_effort=best_effort,
        n=n,
        seed=seed,
        temperature=temperature,
        max_tokens=max_tokens,
    )
    raise typer.Exit(generate_command.run(options, as_json=as_json))


@app.command()
def demo(model: Model = "smollm2") -> None:
    """Run one mixed batch on a small real model: schema, regex and choice on three backends, free text, a failure."""
    from structout.cli import demo as demo_command

    raise typer.Exit(demo_command.run(model))


@app.command()
def serve(
    model: Model = "smollm2",
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for every one this machine has.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for one that is free.")] = 8000,
    grpc_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port for gRPC, 0 for one that is free; none if not given.")
    ] = None,
    max_num_seqs: Annotated[int, typer.Option(min=1, help="Most answers that are generated at once.")] = 32,
) -> None:
    """Serve a model over HTTP, with an API like OpenAI's, and over gRPC, until it is told to stop."""
    from structout.cli import serve as serve_command

    options = serve_command.Options(model=model, host=host, port=port, grpc_port=grpc_port, max_num_seqs=max_num_seqs)
    raise typer.Exit(serve_command.run(options))


@app.command("new-plugin")
def new_plugin(
    name: Annotated[str, typer.Argument(help="Id of the backend: lower-case letters, digits, underscores.")],
    into: Annotated[Path, typer.Option(help="Folder in which the project's own folder is made.")] = Path(),
) -> None:
    """Write an installable project for a grammar backend of your own, with a small backend that works."""
    raise typer.Exit(new_plugin_command.run(name, into))


@app.command()
def fuzz(
    schema: Annotated[Path | None, typer.Argument(help="File with a JSON Schema to look for faults with.")] = None,
    generate: Annotated[bool, typer.Option("--generate", help="Generate specs of every kind a backend takes.")] = False,
    corpus: Annotated[
        Path | None, typer.Option(help="Labelled schemas: MaskBench, a draft of the official suite, or cases.")
    ] = None,
    case: Annotated[Path | None, typer.Option(help="A saved fault to show again.")] = None,
    backend: Backends = None,
    plugin: Plugins = None,
    against: Annotated[
        str | None, typer.Option(help="Another backend, whose masks are compared wherever both are exact.")
    ] = None,
    include_known: Annotated[
        bool, typer.Option("--include-known", help="Report faults too that a backend declares as known.")
    ] = False,
    max_examples: Annotated[int, typer.Option(min=1, help="Most examples for a backend.")] = 500,
    seed: Annotated[int, typer.Option(help="Decides what is generated.")] = 0,
    time: Annotated[float, typer.Option(min=1.0, help="Most seconds for a backend.")] = 60.0,
    faults: Annotated[Path, typer.Option(help="Folder that keeps faults, which are looked at first.")] = Path(
        ".structout/faults"
    ),
    junit: Annotated[Path | None, typer.Option(help="File for a report in JUnit's form.")] = None,
    as_json: AsJson = False,
) -> None:
    """Look for laws that grammar backends break; exit with 1 if one is found, and say how to show it again."""
    from structout.cli import fuzz as fuzz_command

    options = fuzz_command.Options(
        schema=schema,
        generate=generate,
        corpus=corpus,
        case=case,
        backends=tuple(backend or ()),
        plugins=tuple(plugin or ()),
        against=against,
        include_known=include_known,
        max_examples=max_examples,
        seed=seed,
        time_s=time,
        faults=faults,
        junit=junit,
    )
    raise typer.Exit(fuzz_command.run(options, to_json=as_json))


@app.command()
def check(
    schema: Annotated[Path, typer.Argument(help="File with a JSON Schema.")],
    backend: Backends = None,
    plugin: Plugins = None,
    measure: Annotated[bool, typer.Option("--measure", help="Also look for laws that they break with it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what each backend makes of a schema: exact, sound, drops these keywords, refuses, fails, crashes."""
    from structout.cli import check as check_command

    code = check_command.run(schema, backend or (), plugin or (), measure=measure, to_json=as_json)
    raise typer.Exit(code)


Quick = Annotated[bool, typer.Option("--quick", help="Measure for about 40 seconds only.")]
Plot = Annotated[Path | None, typer.Option(help="File for a drawing, .svg or .png; needs structout[plot].")]
GgufVocabulary = Annotated[str, typer.Option(help="smollm2 (packaged), or a GGUF file.")]


@bench.command("sampler")
def bench_sampler(
    masks: Annotated[
        list[Path] | None,
        typer.Option(help="A .npz with masks of real steps, may be repeated; they are recorded when not given."),
    ] = None,
    vocabulary: GgufVocabulary = "smollm2",
    save_masks: Annotated[Path | None, typer.Option(help="File (.npz) that keeps the masks.")] = None,
    dtype: Annotated[str, typer.Option(help="Of the logits: float32, bfloat16 or float16.")] = "float32",
    quick: Quick = False,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Masking and sampling on the CPU, beside xgrammar's apply and torch's softmax and multinomial."""
    from structout.cli.bench import report, sampler

    if dtype not in sampler.DTYPES:
        raise typer.BadParameter(f"is one of {', '.join(sampler.DTYPES)}", param_hint="--dtype")
    options = report.Options(quick=quick, as_json=as_json, plot=plot)
    raise typer.Exit(sampler.run(masks or (), vocabulary, save_masks, dtype, options))


@bench.command("masks")
def bench_masks(
    vocabulary: GgufVocabulary = "smollm2", quick: Quick = False, plot: Plot = None, as_json: AsJson = False
) -> None:
    """Filling bitmasks through structout, beside the backends called directly."""
    from structout.cli.bench import masks, report

    raise typer.Exit(masks.run(vocabulary, report.Options(quick=quick, as_json=as_json, plot=plot)))


@bench.command("compile")
def bench_compile(
    schemas: Annotated[
        Path | None, typer.Option(help="File with a JSON Schema in each line; a few of its own when not given.")
    ] = None,
    vocabulary: GgufVocabulary = "smollm2",
    quick: Quick = False,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Compiling schemas through the compile service, beside the backends called directly."""
    from structout.cli.bench import compile as compile_benchmark
    from structout.cli.bench import report

    options = report.Options(quick=quick, as_json=as_json, plot=plot)
    raise typer.Exit(compile_benchmark.run(schemas, vocabulary, options))


@bench.command("promotion")
def bench_promotion(
    blocked: Annotated[
        int, typer.Option(help="How many requests are blocked, beside a hundred; a million take 1.5 GB.")
    ] = 1_000_000,
    quick: Quick = False,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """A step's promotion with very many blocked requests, beside the same with a hundred."""
    from structout.cli.bench import promotion, report

    raise typer.Exit(promotion.run(blocked, report.Options(quick=quick, as_json=as_json, plot=plot)))


@bench.command("e2e")
def bench_e2e(
    model: Model = "smollm2",
    temperature: Annotated[float, typer.Option(min=0.0, help="Of both sides; 0 is greedy.")] = 0.8,
    quick: Quick = False,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """The embedded engine with xgrammar, beside transformers' generate with xgrammar's logits processor."""
    from structout.cli.bench import e2e, report

    raise typer.Exit(e2e.run(model, temperature, report.Options(quick=quick, as_json=as_json, plot=plot)))
