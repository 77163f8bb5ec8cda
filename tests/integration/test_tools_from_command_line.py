"""Models act, and tools are looked at and called, from the command line."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import tomli_w

from support.flows.flow_tasks import compose_task
from support.mcp.mcp_servers import FIXTURES
from vibe_llms.interfaces.cli.command_line import run

_SCRIPT = """
[[responses]]
contents = [
  { invocation = { id = "a", name = "read_file", arguments = '{"path": "notes.txt"}' } },
  { invocation = { id = "b", name = "add", arguments = '{"a": 2, "b": 3}' } },
]

[[responses]]
contents = [{ text = "The word is xyzzy, and the sum is 5." }]
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder to work in, with a note, a script, and files that name MCP servers."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "notes.txt").write_text("the word is xyzzy\n", encoding="utf-8")
    (folder / "script.toml").write_text(_SCRIPT, encoding="utf-8")
    for name in ("server", "faulty"):  # the real one takes seconds to start
        server = {"command": sys.executable, "arguments": [str(FIXTURES / f"{name}.py"), "plain"]}
        (folder / f"{name}.toml").write_text(tomli_w.dumps(server), encoding="utf-8")
    return folder


@attrs.frozen
class Outcome:
    """What a command line came to."""

    returncode: int
    stdout: str
    stderr: str


Vibe = Callable[..., Outcome]


@pytest.fixture
def vibe(work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Vibe:
    """Performs the command in this process, where nobody can be asked.

    A process of its own would load the official package of MCP anew for each command.
    """
    for name in [name for name in os.environ if name.startswith(("XDG_", "VIBE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(work.parent))
    monkeypatch.chdir(work)

    def perform(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        try:
            code: Any = run(arguments)
        except SystemExit as ended:  # of a result that has said itself what went wrong
            code = ended.code
        said = capsys.readouterr()
        return Outcome(code, said.out, said.err)

    return perform


@pytest.mark.slow
def test_a_model_uses_ensembles_and_servers_at_once(vibe: Vibe) -> None:
    """What needs an approval is executed where it was named; what was done is shown and kept."""
    given = ["--tools", "io", "--mcp", "server.toml", "--allow", "add"]
    done = vibe("ask", "--model", "scripted:script.toml", *given, "Read and add!")

    assert done.returncode == 0, done.stderr
    assert done.stdout == "The word is xyzzy, and the sum is 5.\n"
    assert '→ read_file({"path": "notes.txt"})' in done.stderr
    assert "← read_file: the word is xyzzy" in done.stderr
    assert "← add: 5" in done.stderr

    (row,) = json.loads(vibe("list", "--json").stdout)
    shown = vibe("show", row["id"]).stdout
    assert "the word is xyzzy" in shown
    assert "read_file" in vibe("show", "--usage", row["id"]).stdout


@pytest.mark.slow
def test_a_flow_is_checked_with_the_tools_that_its_run_is_given(work: Path, vibe: Vibe) -> None:
    """What ``--mcp`` and ``--tools`` have is not missing."""
    diagram = 'START --> A[/"add a=2 b=3"/] --> B[/"list_files path=\'.\'"/] --> END'
    (work / "task.json").write_text(json.dumps(compose_task(diagram)), encoding="utf-8")
    given = ["--mcp", "server.toml", "--tools", "io"]

    alone = vibe("flow", "check", "task.json")
    checked = vibe("flow", "check", "task.json", *given)
    misspelt = vibe("flow", "check", "task.json", "--mcp", "servr.toml")

    assert alone.returncode == 3
    assert "Unknown tool 'add'" in alone.stderr
    assert checked.returncode == 0, checked.stderr
    assert misspelt.returncode == 3
    assert "servr.toml" in misspelt.stderr


def test_where_nobody_can_be_asked_nothing_is_allowed(work: Path, vibe: Vibe) -> None:
    """The model is told, and answers all the same."""
    script = work / "script.toml"
    script.write_text(_SCRIPT.replace('"add"', '"echo"'), encoding="utf-8")
    given = ["--tools", "io", "--mcp", "faulty.toml", "--json", "--no-save"]
    done = vibe("ask", "--model", "scripted:script.toml", *given, "Read and echo!")

    assert done.returncode == 0, done.stderr
    results = [each for each in json.loads(done.stdout)["canisters"] if each["role"] == "result"]
    assert [each["is_error"] for each in results] == [False, True]
    assert "No terminal to ask" in results[1]["content"][0]["text"]


def test_tools_are_listed_with_what_they_cost(vibe: Vibe) -> None:
    """Those of servers, too; for programs as JSON."""
    listed = json.loads(vibe("tools", "list", "-t", "io", "--mcp", "faulty.toml", "--json").stdout)

    by_name = {each["name"]: each for each in listed}
    assert by_name["read_file"]["ensemble"] == "io"
    assert by_name["read_file"]["effect"] == "pure"
    assert by_name["echo"]["needs_approval"]
    assert all(each["tokens"] > 0 for each in listed)

    shown = vibe("tools", "show", "write_file")
    assert "before each call" in shown.stdout


def test_a_tool_is_called_as_a_model_would(work: Path, vibe: Vibe) -> None:
    """With pairs or with JSON; what fails ends with 1, what does not exist names the nearest."""
    assert "xyzzy" in vibe("tools", "call", "read_file", "path=notes.txt").stdout
    assert "xyzzy" in vibe("tools", "call", "read_file", '{"path": "notes.txt"}').stdout

    outside = vibe("tools", "call", "read_file", "path=/etc/passwd")
    assert outside.returncode == 1
    assert "root:" not in outside.stdout

    unknown = vibe("tools", "call", "read_fil")
    assert unknown.returncode != 0
    assert "read_file" in unknown.stderr

    refused = vibe("tools", "call", "write_file", "path=a.txt", "text=hi")
    assert refused.returncode != 0
    assert "--allow write_file" in refused.stderr
    assert not (work / "a.txt").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--tools", "oi"], "oi"),
        (["--mcp", "nowhere.toml"], "nowhere.toml"),
        (["--mcp", "script.toml"], "script.toml:2: responses: Unknown setting"),
    ],
)
def test_what_cannot_be_had_is_told_before_anything_is_asked(
    vibe: Vibe, given: list[str], said: str
) -> None:
    """One line, which names it; nothing is kept."""
    done = vibe("ask", "--model", "scripted:script.toml", *given, "Hello")

    assert done.returncode != 0
    assert done.stdout == ""
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(vibe("list", "--json").stdout) == []


def test_the_table_explains_itself(vibe: Vibe) -> None:
    """Without a model and without a question."""
    done = vibe("ask", "--explain")

    assert done.returncode == 0
    assert "EXECUTE" in done.stdout


@pytest.mark.slow
def test_what_a_server_adds_later_can_be_allowed(work: Path, vibe: Vibe) -> None:
    """It is named beforehand, and executed without a question once it is there."""
    calls = [
        {"id": "a", "name": "learn", "arguments": '{"name": "sing"}'},
        {"id": "b", "name": "sing", "arguments": "{}"},
    ]
    answers = [
        *({"contents": [{"invocation": each}]} for each in calls),
        {"contents": [{"text": "La."}]},
    ]
    (work / "script.toml").write_text(tomli_w.dumps({"responses": answers}), encoding="utf-8")
    given = ["ask", "--model", "scripted:script.toml", "--mcp", "server.toml"]

    done = vibe(*given, "--allow", "learn,sing", "Sing!")

    assert done.returncode == 0, done.stderr
    assert "← sing: new" in done.stderr
    assert "--allow sing: " in done.stderr


@pytest.mark.slow
def test_what_has_yet_to_be_found_can_be_allowed(work: Path, vibe: Vibe) -> None:
    """Of a server with many tools a model is told of a search; what it finds is there already."""
    server = {"command": sys.executable, "arguments": [str(FIXTURES / "server.py"), "plain"]}
    (work / "server.toml").write_text(tomli_w.dumps({**server, "lazy": True}), encoding="utf-8")
    given = ["ask", "--model", "scripted:echo", "--mcp", "server.toml"]

    done = vibe(*given, "--allow", "add", "Add!")

    assert done.returncode == 0, done.stderr
    assert "--allow" not in done.stderr


@pytest.mark.slow
def test_a_slip_beside_a_server_is_told(vibe: Vibe) -> None:
    """It might be a tool to come, so that nothing is refused; the nearest is named."""
    given = ["ask", "--model", "scripted:echo", "--mcp", "server.toml"]

    done = vibe(*given, "--allow", "revael", "Hi")

    assert done.returncode == 0, done.stderr
    assert "did you mean 'reveal'?" in done.stderr
