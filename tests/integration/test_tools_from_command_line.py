"""Models act, and tools are looked at and called, from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tomli_w

from command_line import VIBE, produce_environment
from mcp_servers import FIXTURES

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


def vibe(work: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command where nobody can be asked."""
    return subprocess.run(
        [*VIBE, *arguments],
        cwd=work,
        env=produce_environment(work.parent),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def test_a_model_uses_ensembles_and_servers_at_once(work: Path) -> None:
    """What needs an approval is executed where it was named; what was done is shown and kept."""
    given = ["--tools", "io", "--mcp", "server.toml", "--allow", "add"]
    done = vibe(work, "ask", "--model", "scripted:script.toml", *given, "Read and add!")

    assert done.returncode == 0, done.stderr
    assert done.stdout == "The word is xyzzy, and the sum is 5.\n"
    assert '→ read_file({"path": "notes.txt"})' in done.stderr
    assert "← read_file: the word is xyzzy" in done.stderr
    assert "← add: 5" in done.stderr

    (row,) = json.loads(vibe(work, "list", "--json").stdout)
    shown = vibe(work, "show", row["id"]).stdout
    assert "the word is xyzzy" in shown
    assert "read_file" in vibe(work, "show", "--usage", row["id"]).stdout


def test_where_nobody_can_be_asked_nothing_is_allowed(work: Path) -> None:
    """The model is told, and answers all the same."""
    script = work / "script.toml"
    script.write_text(_SCRIPT.replace('"add"', '"echo"'), encoding="utf-8")
    given = ["--tools", "io", "--mcp", "faulty.toml", "--json"]
    done = vibe(work, "ask", "--model", "scripted:script.toml", *given, "Read and echo!")

    assert done.returncode == 0, done.stderr
    results = [each for each in json.loads(done.stdout)["canisters"] if each["role"] == "result"]
    assert [each["is_error"] for each in results] == [False, True]
    assert "Nobody can be asked" in results[1]["content"][0]["text"]


def test_tools_are_listed_with_what_they_cost(work: Path) -> None:
    """Those of servers, too; for programs as JSON."""
    listed = json.loads(
        vibe(work, "tools", "list", "-t", "io", "--mcp", "faulty.toml", "--json").stdout
    )

    by_name = {each["name"]: each for each in listed}
    assert by_name["read_file"]["ensemble"] == "io"
    assert by_name["read_file"]["effect"] == "pure"
    assert by_name["echo"]["needs_approval"]
    assert all(each["tokens"] > 0 for each in listed)

    shown = vibe(work, "tools", "show", "write_file")
    assert "before each call" in shown.stdout


def test_a_tool_is_called_as_a_model_would(work: Path) -> None:
    """With pairs or with JSON; what fails ends with 1, what does not exist names the nearest."""
    assert "xyzzy" in vibe(work, "tools", "call", "read_file", "path=notes.txt").stdout
    assert "xyzzy" in vibe(work, "tools", "call", "read_file", '{"path": "notes.txt"}').stdout

    outside = vibe(work, "tools", "call", "read_file", "path=/etc/passwd")
    assert outside.returncode == 1
    assert "root:" not in outside.stdout

    unknown = vibe(work, "tools", "call", "read_fil")
    assert unknown.returncode != 0
    assert "read_file" in unknown.stderr

    refused = vibe(work, "tools", "call", "write_file", "path=a.txt", "text=hi")
    assert refused.returncode != 0
    assert "--allow write_file" in refused.stderr
    assert not (work / "a.txt").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--tools", "oi"], "oi"),
        (["--mcp", "nowhere.toml"], "nowhere.toml"),
        (["--mcp", "script.toml"], "script.toml:2: responses: There is no such setting"),
    ],
)
def test_what_cannot_be_had_is_told_before_anything_is_asked(
    work: Path, given: list[str], said: str
) -> None:
    """One line, which names it; nothing is kept."""
    done = vibe(work, "ask", "--model", "scripted:script.toml", *given, "Hello")

    assert done.returncode != 0
    assert done.stdout == ""
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(vibe(work, "list", "--json").stdout) == []


def test_the_table_explains_itself(work: Path) -> None:
    """Without a model and without a question."""
    done = vibe(work, "ask", "--explain")

    assert done.returncode == 0
    assert "EXECUTE" in done.stdout


def test_what_a_server_adds_later_can_be_allowed(work: Path) -> None:
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

    done = vibe(work, *given, "--allow", "learn,sing", "Sing!")

    assert done.returncode == 0, done.stderr
    assert "← sing: new" in done.stderr
    assert "--allow sing: nothing that is there yet is called so" in done.stderr


def test_what_has_yet_to_be_found_can_be_allowed(work: Path) -> None:
    """Of a server with many tools a model is told of a search; what it finds is there already."""
    server = {"command": sys.executable, "arguments": [str(FIXTURES / "server.py"), "plain"]}
    (work / "server.toml").write_text(tomli_w.dumps({**server, "lazy": True}), encoding="utf-8")
    given = ["ask", "--model", "scripted:echo", "--mcp", "server.toml"]

    done = vibe(work, *given, "--allow", "add", "Add!")

    assert done.returncode == 0, done.stderr
    assert "--allow" not in done.stderr


def test_a_slip_beside_a_server_is_told(work: Path) -> None:
    """It might be a tool to come, so that nothing is refused; the nearest is named."""
    given = ["ask", "--model", "scripted:echo", "--mcp", "server.toml"]

    done = vibe(work, *given, "--allow", "revael", "Hi")

    assert done.returncode == 0, done.stderr
    assert "did you mean 'reveal'?" in done.stderr
