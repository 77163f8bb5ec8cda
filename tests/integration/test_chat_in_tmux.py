"""A chat in a real terminal program, as a person sees it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
import tomli_w

from support.screens.terminals import Terminals
from vibe_llms.testing.simulator import SynchronousSimulator

pytestmark = pytest.mark.terminal


@pytest.mark.parametrize("columns", [40, 160])
def test_an_answer_is_drawn_once_whatever_the_width(open_terminal: Terminals, columns: int) -> None:
    """Headings, tables, code and other scripts stream into a narrow and into a wide window."""
    terminal = open_terminal(columns, 60, "chat", "--model", "scripted:demo")
    terminal.type("こんにちは, مرحبا 🎉")

    screen = terminal.wait_for(r"then another\.")

    assert screen.count("A demonstration") == 1
    assert screen.count("First one thing") == 1
    assert "日本語" in screen
    assert "await model.ask" in " ".join(screen.split())
    assert all(len(line) <= columns for line in screen.splitlines())


def test_an_answer_can_be_stopped_and_the_program_goes_on(
    open_terminal: Terminals,
) -> None:
    """Ctrl-C stops the answer and keeps what came; the next one is asked for as ever."""
    terminal = open_terminal(80, 24, "chat", "--model", "scripted:slow")
    terminal.type("Count, please.")
    terminal.wait_for("One, and")
    terminal.press("C-c")
    terminal.wait_for(r"(?i)stopped")
    terminal.press("C-c")
    terminal.type("/model scripted:echo")
    terminal.wait_for("scripted:echo")
    terminal.type("Still there?")

    # The terminal may show what was typed before the prompt did; the answer ends at a new prompt.
    screen = terminal.wait_for(r"> Still there\?\s+Still there\?\s+>")

    assert "and ten" not in screen
    assert terminal.is_alive()
    terminal.press("C-d")
    terminal.wait_until_closed()


def test_a_broken_provider_costs_one_line_and_not_the_chat(
    open_terminal: Terminals,
) -> None:
    """What had arrived stays, the error says what happened, and the next answer is whole."""
    terminal = open_terminal(100, 24, "chat", "--model", "scripted:broken")
    terminal.type("First.")
    screen = terminal.wait_for("The stream ended")
    assert "This answer breaks o" in screen
    assert "Traceback" not in screen

    terminal.type("/model scripted:echo")
    terminal.type("Better now?")

    terminal.wait_for(r"Better now\?.*Better now\?")


VENDORS = {
    "anthropic": "/simulate/slow=20",
    "google": "/simulate/rate_limit=1,slow=20",
    "mistral": "/simulate/mistral,slow=40/v1",
}
"""From three vendors to where they are in the simulator: one refuses at first, none hurries."""


def test_a_conversation_moves_from_vendor_to_vendor(
    tmp_path: Path, simulator: SynchronousSimulator, open_terminal: Terminals
) -> None:
    """Thoughts are seen, losses and retries told in a line, and Ctrl-C stops one answer only."""
    providers = {
        name: {"base_url": simulator.url + path, "api_key": "canary"}
        for name, path in VENDORS.items()
    }
    file = tmp_path / ".config" / "vibe-llms" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(tomli_w.dumps({"providers": providers}), encoding="utf-8")
    terminal = open_terminal(120, 60, "chat", "--model", "anthropic:m")

    terminal.type("think of one")
    terminal.wait_for(r"The user asks something\..*think of one\n")
    terminal.type("/model google:m")
    terminal.wait_for("The model is google:m")
    terminal.type("think of two")
    screen = terminal.wait_for(r"think of two\n.*think of two\n")
    assert "Changed in translation: " in screen
    assert "reasoning of another model" in screen
    assert "Retrying in 1 s: google failed (rate-limited)" in screen
    terminal.type("/model mistral:m")
    terminal.wait_for("The model is mistral:m")
    terminal.type("think " + " ".join(f"word{number}" for number in range(80)))
    terminal.wait_for(r"word79.*word0 word1 word2")
    terminal.press("C-c")
    screen = terminal.wait_for(r"Stopped\. .*/continue")
    assert screen.count("word79") == 1
    terminal.type("/model anthropic:m")
    terminal.wait_for(r"The model is anthropic:m.*The model is anthropic:m|is anthropic:m")
    terminal.type("back again")

    screen = terminal.wait_for(r"back again\n.*back again\n")
    assert screen.count("Changed in translation") == 3  # once for each who got others' words
    assert screen.count("Retrying") == 1
    assert "Traceback" not in screen
    stopped = [request for request in simulator.requests if request.disconnected_at is not None]
    assert len(stopped) == 1


_PAYING = """
[[responses]]
contents = [{ invocation = { id = "a", name = "write_file", arguments = '{args}' } }]

[[responses]]
contents = [{ text = "Written down." }]
"""


def test_a_person_decides_what_is_done(open_terminal: Terminals) -> None:
    """The call is shown and waits; edited, it is done as edited; then the answer follows."""
    home = Path(tempfile.mkdtemp(prefix="vibe-acting-"))
    arguments = '{"path": "list.txt", "text": "eggs"}'
    (home / "script.toml").write_text(_PAYING.replace("{args}", arguments), encoding="utf-8")
    settings = {"ensembles": {"io": {"directories": [str(home)]}}}
    terminal = open_terminal(
        100,
        30,
        "chat",
        "--tools",
        "io",
        "--model",
        f"scripted:{home / 'script.toml'}",
        settings=settings,
    )

    terminal.wait_for("/help for commands")
    terminal.type("Write eggs on my list!")
    screen = terminal.wait_for("or Enter to deny")
    assert '"text": "eggs"' in screen
    assert not (home / "list.txt").exists()
    terminal.type("e")
    terminal.wait_for("Arguments, as JSON")
    terminal.type('{"path": "list.txt", "text": "milk"}')

    terminal.wait_for("Written down")
    assert (home / "list.txt").read_text(encoding="utf-8") == "milk"
    terminal.type("/tools")
    terminal.wait_for(r"write_file +\(io, idempotent, asks first\)")
    terminal.type("/usage")
    terminal.wait_for("write_file +1")
    shutil.rmtree(home)
