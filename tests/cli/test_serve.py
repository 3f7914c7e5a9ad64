"""``structout serve``: what it refuses before it serves. What it serves is tested with the server."""

import socket

import pytest
from typer.testing import CliRunner, Result

from structout.cli.app import app


def serve(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["serve", *arguments])


def test_a_port_that_is_taken_is_said_before_anything_is_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = serve("--model", "./nowhere", "--port", str(taken.getsockname()[1]))
    assert result.exit_code == 2
    assert "cannot be listened on: Address already in use" in result.stderr


def test_a_host_that_is_not_there_is_said() -> None:
    result = serve("--host", "no such host")
    assert result.exit_code == 2
    assert "no such host, port 8000, cannot be listened on" in result.stderr


@pytest.mark.parametrize("again", [False, True])
def test_a_model_that_is_not_there_is_said(again: bool) -> None:
    result = serve("--model", "./nowhere", "--port", "0")
    assert result.exit_code == 1
    assert "nowhere has no config.json" in result.stderr
