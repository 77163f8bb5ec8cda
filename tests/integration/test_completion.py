"""Completion in a real bash, for which a colon ends a word."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.screens.command_line import produce_environment

Complete = Callable[..., list[str]]
PLUGINS = Path(__file__).parents[1] / "fixtures" / "example-plugins"
BASH = shutil.which("bash") or "bash"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there is no bash")

ASK = """
source ../completion.bash
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=$2
_vibe_completion vibe
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A home with a configuration, a conversation and the program on the path."""
    folder = tmp_path / ".config" / "vibe-llms"
    folder.mkdir(parents=True)
    text = '[aliases]\nfast = "groq:m"\n[mcp.harbour]\ncommand = "true"\n'
    text += '[plugins.desk]\nmodule = "desk_clerk"\n'
    (folder / "config.toml").write_text(text)
    (folder / "skills").mkdir()
    (folder / "skills" / "sailor.toml").write_text('prompt = "Ahoy"\n')
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "ocean.toml").write_text("")
    program = tmp_path / "bin" / "vibe"
    program.parent.mkdir()
    run = "from vibe_llms.interfaces.cli.entry import main; main()"
    program.write_text(f"#!/bin/sh\nexec '{sys.executable}' -c '{run}' \"$@\"\n")
    program.chmod(0o755)
    path = os.pathsep.join([str(program.parent), os.environ["PATH"]])
    variables = produce_environment(tmp_path, PATH=path)
    variables["PYTHONPATH"] += f"{os.pathsep}{PLUGINS}"
    script = subprocess.run(
        [str(program), "completion", "bash"], env=variables, capture_output=True, check=True
    )
    (tmp_path / "completion.bash").write_bytes(script.stdout)
    return variables


@pytest.fixture
def complete(environment: dict[str, str], tmp_path: Path) -> Complete:
    """Lets a real bash complete a line, by its own function for that."""

    def perform(line: str, kind: int = 9) -> list[str]:
        outcome = subprocess.run(
            [BASH, "--norc", "-c", ASK, "bash", line, str(kind)],
            env=environment,
            cwd=tmp_path / "work",
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert outcome.returncode == 0, outcome.stderr
        return [line for line in outcome.stdout.split("\n") if line]

    return perform


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "candidates"),
    [
        ("vibe ask -m anthropic:claude-fab", ["claude-fable-5-2"]),
        ("vibe ask --model=anthropic:claude-fab", ["claude-fable-5-2"]),
        ("vibe ask -m openai:gpt-5-n", ["gpt-5-nano"]),
        ("vibe ask -m fas", ["fast"]),
        ("vibe chat --provider gem", ["gemini"]),
        ("vibe ask -t io,she", ["io,shell"]),
        ("vibe ask -t io,io", []),
        ("vibe ask --mcp har", ["harbour"]),
        ("vibe ask --skill sai", ["sailor"]),
        ("vibe ask --allow al", ["all"]),
        ("vibe tools list -t io --allow write_", ["write_file"]),
        ("vibe ask -c tempe", ["temperature="]),
        ("vibe config set limits.att", ["limits.attachment_bytes", "limits.attempts"]),
        ("vibe credentials set openr", ["openrouter"]),
        ("vibe ask --approver ter", ["terminal"]),
        ("vibe ask --approver cl", ["clerk", "clumsy"]),
        ("vibe search --role su", ["supervisor"]),
        ("vibe plugins remove ", ["desk"]),
        ("vibe tools show -t io write_", ["write_file"]),
        ("vibe conf", ["config", "conformance"]),
    ],
)
def test_bash_completes_what_a_person_types(
    complete: Complete, line: str, candidates: list[str]
) -> None:
    """Nothing before the colon is repeated, as bash keeps that itself."""
    assert complete(line) == candidates


@pytest.mark.slow
def test_conversations_are_shown_with_their_titles(
    complete: Complete, environment: dict[str, str], tmp_path: Path
) -> None:
    """Where bash lists them; what it inserts is the id."""
    for words in ("About harbours", "About ships"):
        command = ["vibe", "ask", "-m", "scripted:echo", words]
        subprocess.run(command, env=environment, cwd=tmp_path, check=True, capture_output=True)

    listed = complete("vibe show ", 63)
    inserted = complete("vibe show ")

    assert len(listed) == len(inserted) == 2
    assert [line.partition("  (")[2] for line in listed] == ["About ships)", "About harbours)"]
    assert [line.partition("  (")[0] for line in listed] == inserted


@pytest.mark.slow
def test_a_line_is_completed_as_it_is_typed(environment: dict[str, str], tmp_path: Path) -> None:
    """In an interactive bash on a terminal, with the words that it makes of a line."""
    import pty

    child, terminal = pty.fork()
    if child == 0:  # pragma: no cover - another process
        os.chdir(tmp_path / "work")
        os.execve(BASH, [BASH, "--norc", "--noprofile", "-i"], {**environment, "TERM": "dumb"})
    try:
        os.write(terminal, b"source ../completion.bash; echo rea''dy\n")
        _read_until(terminal, b"\nready")
        os.write(terminal, b"vibe ask -m anthropic:claude-fab\t")
        shown = _read_until(terminal, b"claude-fable-5-2 ")
        assert b"anthropic:claude-fable-5-2 " in shown
        for typed in (b"--mcp oce", b"--skill oce", b"-f oce", b"--schema=oce"):
            os.write(terminal, b"\x15vibe ask " + typed + b"\t")
            _read_until(terminal, typed + b"an.toml ")
        for typed in (b"batch p -o oce", b"plugins add oce", b"import oce"):
            os.write(terminal, b"\x15vibe " + typed + b"\t")
            _read_until(terminal, typed + b"an.toml ")
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(terminal)


def _read_until(terminal: int, words: bytes) -> bytes:
    shown = b""
    while words not in shown.replace(b"\r", b""):
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, shown
        shown += os.read(terminal, 4096)
    return shown
