"""The command line: ``structout backends``, ``structout generate``, ``structout demo``."""

import sys


def main() -> None:
    """Entry point of the ``structout`` command."""
    try:
        import typer  # noqa: F401
    except ModuleNotFoundError:
        sys.exit("the structout command needs some packages: pip install 'structout[cli]'")
    from structout.cli.app import app

    app()
