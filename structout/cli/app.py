"""The commands and their options; what they do is in the modules named after them."""

from pathlib import Path
from typing import Annotated

import typer

from structout.cli import backends as backends_command
from structout.cli import demo as demo_command
from structout.cli import generate as generate_command

app = typer.Typer(
    help="Structured output for LLM serving: any grammar backend, chosen per request, enforced exactly or refused.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
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
    raise typer.Exit(demo_command.run(model))
