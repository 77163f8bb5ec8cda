"""A command that is printed runs as it is printed, however the program was called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.screens.command_line import produce_environment
from vibe_llms.interfaces.cli.program import compose_command, name_program, respell


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an environment in it, from which programs are called."""
    scripts = tmp_path / ".venv" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "vibe").write_text("#!/bin/sh\n")
    (scripts / "vibe").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    return tmp_path


def _call(monkeypatch: pytest.MonkeyPatch, given: list[str], script: str) -> None:
    monkeypatch.setattr(sys, "orig_argv", given)
    monkeypatch.setattr(sys, "argv", [script])


def test_a_path_that_was_typed_is_printed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to know what activating an environment is."""
    _call(monkeypatch, ["python", ".venv/bin/vibe"], ".venv/bin/vibe")

    assert name_program() == ".venv/bin/vibe"
    assert compose_command("ask", "--continue", "a b") == ".venv/bin/vibe ask --continue 'a b'"


def test_what_the_shell_finds_is_called_by_its_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as it is this program, and not another of the same name that comes first."""
    script = str(folder / ".venv" / "bin" / "vibe")
    _call(monkeypatch, ["python", script], script)
    monkeypatch.setenv("PATH", f"/nowhere{os.pathsep}{folder / '.venv' / 'bin'}")
    assert name_program() == "vibe"

    other = folder / "other"
    other.mkdir()
    (other / "vibe").write_text("#!/bin/sh\n")
    (other / "vibe").chmod(0o755)
    monkeypatch.setenv("PATH", f"{other}{os.pathsep}{folder / '.venv' / 'bin'}")
    assert name_program() == script


def test_a_module_is_called_as_a_module(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the interpreter that was typed."""
    _call(monkeypatch, [".venv/bin/python", "-m", "vibe_llms", "list"], "/x/__main__.py")

    assert name_program() == ".venv/bin/python -m vibe_llms"


def test_other_programs_print_the_plain_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What embeds the command line is called in its own way, which nobody here can know."""
    for given, script in ((["python", "-c", "…"], "-c"), (["python", "-m", "pytest"], "/p/m.py")):
        _call(monkeypatch, given, script)
        assert name_program() == "vibe"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("`vibe list` shows all.", "`./vibe list` shows all."),
        ("Fetch it: vibe models pull a:b", "Fetch it: ./vibe models pull a:b"),
        ("Try: vibe --help", "Try: ./vibe --help"),
        ("Try: vibe chat --help", "Try: ./vibe chat --help"),
        ("./vibe list", "./vibe list"),
        (
            "A good vibe is in the air; vibe-llms lists",
            "A good vibe is in the air; vibe-llms lists",
        ),
        ("vibe listens", "vibe listens"),
    ],
)
def test_remedies_are_respelt(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, printed: str
) -> None:
    """Where an error names a command, it is one that runs."""
    _call(monkeypatch, ["python", "./vibe"], "./vibe")

    assert respell(text) == printed


@pytest.mark.slow
def test_every_hint_runs_as_it_is_printed(tmp_path: Path) -> None:
    """The remedies of errors, the remarks, and what follows an answer."""
    environment = produce_environment(tmp_path)

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "vibe_llms", *arguments],
            env=environment,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    program = f"{sys.executable} -m vibe_llms"
    assert f"`{program} chat` starts one" in call("list").stderr
    assert f"`{program} chat` starts one" in call("chat", "--continue").stderr
    assert f"`{program} list` lists" in call("show", "zzz").stderr
    assert f"Try: {program} show --help" in call("show", "--nothing").stderr
    hint = call("ask", "--save", "Hello").stderr.rpartition("continue with: ")[2]
    assert hint.startswith(f"{program} chat --continue ")
    assert call(*hint.split()[3:], "And now?").returncode == 0
