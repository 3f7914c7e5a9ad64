"""``structout serve``: what it refuses before it serves. What it serves is tested with the server."""

import importlib.util
import socket

import pytest
from typer.testing import CliRunner, Result

from structout.cli.app import app


def serve(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["serve", *arguments])


@pytest.mark.parametrize("option", ["--port", "--grpc-port"])
def test_a_port_that_is_taken_is_said_before_anything_is_loaded(option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = serve("--model", "./nowhere", "--port", "0", option, str(taken.getsockname()[1]))
    assert result.exit_code == 2
    assert "cannot be listened on: Address already in use" in result.stderr


def test_one_port_for_both_is_said_before_anything_is_loaded() -> None:
    result = serve("--model", "./nowhere", "--port", "8123", "--grpc-port", "8123")
    assert result.exit_code == 2
    assert "--port and --grpc-port are both 8123" in result.stderr
    assert "or 0 for one that is free" in result.stderr
    result = serve("--model", "./nowhere", "--port", "0", "--grpc-port", "0")
    assert "nowhere has no config.json" in result.stderr


def test_grpc_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "grpc" else find_spec(name))
    result = serve("--model", "./nowhere", "--port", "0", "--grpc-port", "0")
    assert result.exit_code == 2
    assert "pip install 'structout[grpc]'" in result.stderr


def test_a_host_that_is_not_there_is_said() -> None:
    result = serve("--host", "no such host")
    assert result.exit_code == 2
    assert "no such host, port 8000, cannot be listened on" in result.stderr


@pytest.mark.parametrize("again", [False, True])
def test_a_model_that_is_not_there_is_said(again: bool) -> None:
    result = serve("--model", "./nowhere", "--port", "0")
    assert result.exit_code == 1
    assert "nowhere has no config.json" in result.stderr
