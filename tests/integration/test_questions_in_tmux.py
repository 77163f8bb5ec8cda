"""Questions in a real terminal program: Ctrl-C leaves them at any moment, and hangs nothing."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tomli_w

from support.runs.acting import invoke, say
from support.runs.scripting import write_script
from support.screens.command_line import VIBE
from support.screens.terminals import Terminals

pytestmark = pytest.mark.terminal

_CURIOUS = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from support.mcp import asking_server
asking_server.produce_server().run()
"""

_MOMENTS = {
    "when it has just been shown": ([], "Enter to deny"),
    "while a word is half typed": (["on"], r"deny\? on"),
    "after an answer that makes no sense": (["what?", "Enter"], r"deny\? what\?.*Enter to deny"),
    "at other arguments": (["e", "Enter"], "as JSON"),
    "in the middle of other arguments": (["e", "Enter", "[1,"], r"\[1,"),
    "at a reason": (["n", "Enter"], "Reason for the model"),
}
"""What is typed at the question of an approval before Ctrl-C, and what the screen shows then."""


@pytest.fixture
def address(tmp_path: Path) -> str:
    """A model that wants to write a file."""
    call = invoke("write_file", path="list.txt", text="eggs")
    return f"scripted:{write_script(tmp_path, {'contents': [call]}, {'contents': [say('Done.')]})}"


@pytest.mark.parametrize("moment", _MOMENTS)
def test_a_question_can_be_left_and_the_chat_goes_on(
    tmp_path: Path, open_terminal: Terminals, address: str, moment: str
) -> None:
    """Ctrl-C at any moment of it: nothing is done, and what is typed then is said in the chat."""
    settings = {"ensembles": {"io": {"directories": [str(tmp_path)]}}}
    terminal = open_terminal(
        120, 30, "chat", "--tools", "io", "--model", address, settings=settings
    )
    terminal.wait_for("Ctrl-D to leave")
    terminal.type("Write eggs on my list!")
    terminal.wait_for("or Enter to deny")
    keys, shown = _MOMENTS[moment]
    for key in keys:
        terminal.press(key)
    terminal.wait_for(shown)

    terminal.press("C-c")

    terminal.wait_for("Stopped")
    terminal.type("/model")
    terminal.wait_for(r"The model is\s+scripted:")
    assert not (tmp_path / "list.txt").exists()
    terminal.press("C-d")
    terminal.wait_until_closed()


def test_a_chat_goes_on_after_a_question_that_a_thread_asked(open_terminal: Terminals) -> None:
    """Nothing was installed, and whoever asks for it again is asked again."""
    settings = {"providers": {"mine": {"module": "nowhere", "package": "no-such-package"}}}
    terminal = open_terminal(120, 30, "chat", "--model", "scripted:echo", settings=settings)
    terminal.wait_for("Ctrl-D to leave")
    for _ in range(2):
        terminal.type("/model mine:m")
        terminal.wait_for(r"\[y/N\]$")
        terminal.press("C-c")
        terminal.wait_for(r"Stopped\.\s*> *$")

    terminal.type("Still there?")

    terminal.wait_for(r"Still there\?.*Still there\?")
    terminal.press("C-d")
    terminal.wait_until_closed()


def test_what_was_typed_before_a_question_was_shown_is_no_answer_to_it(
    tmp_path: Path, open_terminal: Terminals
) -> None:
    """Nobody has read yet what they would have agreed to."""
    call = invoke("write_file", path="list.txt", text="eggs")
    words = say(" ".join(f"word{number}" for number in range(40)))
    slow = {"contents": [words, call], "delay_seconds": 0.05, "chunk_characters": 6}
    script = write_script(tmp_path, slow, {"contents": [say("Done.")]})
    settings = {"ensembles": {"io": {"directories": [str(tmp_path)]}}}
    model = f"scripted:{script}"
    terminal = open_terminal(120, 30, "chat", "--tools", "io", "--model", model, settings=settings)
    terminal.wait_for("Ctrl-D to leave")
    terminal.type("Write eggs on my list!")
    terminal.wait_for("word3")

    terminal.type("ok")

    terminal.wait_for("or Enter to deny")
    terminal.type("what?")
    terminal.wait_for(r"Enter to deny\? what\?.*Enter to deny")
    assert not (tmp_path / "list.txt").exists()


Prepare = Callable[[Path, str], tuple[list[str], str]]
"""Returns the arguments of a command that asks something, and what is on the screen then."""


def _ask_to_write(home: Path, address: str) -> tuple[list[str], str]:
    return ["ask", "--tools", "io", "--model", address, "Write eggs!"], "or Enter to deny"


def _call_a_tool(home: Path, address: str) -> tuple[list[str], str]:
    arguments = ["tools", "call", "write_file", "--tools", "io", "path=list.txt", "text=eggs"]
    return arguments, "or Enter to deny"


def _use_the_skill_of_a_folder(home: Path, address: str) -> tuple[list[str], str]:
    skill = home / ".vibe-llms" / "skills" / "poet.toml"
    skill.parent.mkdir(parents=True)
    (home / ".vibe-llms" / "config.toml").touch()
    skill.write_text('description = "Rhymes."\nprompt = "Rhyme."\n', encoding="utf-8")
    return ["ask", "--skill", "poet", "Hello"], r"\[y/N\]"


def _trust_a_folder(home: Path, address: str) -> tuple[list[str], str]:
    file = home / "project" / ".vibe-llms" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(tomli_w.dumps({"providers": {"mine": {"module": "m"}}}), encoding="utf-8")
    return ["trust", "project"], r"\[y/N\]"


def _install_a_package(home: Path, address: str) -> tuple[list[str], str]:
    return ["models", "pull", "mine:m"], r"\[y/N\]"


def _let_a_server_ask(home: Path, address: str) -> tuple[list[str], str]:
    arguments = ["tools", "call", "ask_person", "--mcp", "curious", "message=Who?", "--allow=all"]
    return arguments, r"curious asks.*place"


@pytest.mark.parametrize(
    "prepare",
    [
        _ask_to_write,
        _call_a_tool,
        _use_the_skill_of_a_folder,
        _trust_a_folder,
        _install_a_package,
        _let_a_server_ask,
    ],
)
def test_a_command_is_left_at_its_question(
    tmp_path: Path, open_terminal: Terminals, address: str, prepare: Prepare
) -> None:
    """It ends as interrupted, whoever asked and from whatever thread; the terminal is as before."""
    arguments, shown = prepare(tmp_path, address)
    settings = {
        "mcp": {"curious": {"command": sys.executable, "arguments": ["-c", _CURIOUS]}},
        "ensembles": {"io": {"directories": [str(tmp_path)]}},
        "providers": {"mine": {"module": "nowhere", "package": "no-such-package"}},
    }
    afterwards = "status=$?; echo; echo ended with $status; stty -a; sleep 600"
    terminal = open_terminal(120, 40, *arguments, settings=settings, afterwards=afterwards)
    terminal.wait_for(shown)
    terminal.press("hm")
    terminal.wait_for(f"{shown}.*hm")

    terminal.press("C-c")

    screen = terminal.wait_for("ended with 130.*icanon.* echo ")
    assert "Traceback" not in screen
    assert not (tmp_path / "list.txt").exists()


def test_a_chat_into_a_pipe_is_left_where_it_waits_for_a_line(open_terminal: Terminals) -> None:
    """It has no line editor, and reads the terminal as it would a pipe."""
    chat = shlex.join([*VIBE, "chat", "--model", "scripted:echo", "hello"])
    command = f"trap : INT; {chat} | (trap '' INT; cat); echo ended; sleep 600"
    terminal = open_terminal.open(120, 40, command)
    terminal.wait_for("hello")

    terminal.press("C-c")

    terminal.wait_for("ended")
