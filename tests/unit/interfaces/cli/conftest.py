"""A home of its own for each test, and a way to perform command lines in this process."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from support.screens.keyboards import Keyboard, open_keyboard
from vibe_llms.interfaces.cli.command_line import run


@attrs.frozen
class Outcome:
    """What a command line came to."""

    code: int
    out: str
    err: str

    def read_json(self) -> Any:
        return json.loads(self.out)


Vibe = Callable[..., Outcome]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, also the working directory."""
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "VIBE_LLMS_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("VIBE_LLMS_MODEL", "scripted:echo")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def vibe(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Vibe:
    """Performs a command line; nothing is a terminal."""

    def perform(*arguments: str, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        code = run(arguments)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return perform


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Keyboard]:
    """A terminal to be plugged in."""
    with open_keyboard(monkeypatch) as keyboard:
        yield keyboard
