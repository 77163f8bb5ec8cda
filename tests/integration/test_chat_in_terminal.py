"""``vibe chat`` in a real terminal: a pseudo-terminal, and an emulator that shows its screen."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.screens.command_line import VIBE, produce_environment
from support.screens.pseudoterminals import PATIENCE_SECONDS, Terminal

_CODE = "\n".join(f"value_{number} = {number}" for number in range(40))
_WORDS = " ".join(f"word{number}" for number in range(200))
_SCRIPT = '''
[[responses]]
match = "code"
delay_seconds = 0.002
chunk_characters = 9
contents = [{ text = """
Here is code:

```python
CODE
```

That was **all** of it.
""" }]

[[responses]]
match = "world"
delay_seconds = 0.002
chunk_characters = 2
contents = [
  { reasoning = "考えています。ユーザーは世界の言葉を見たい。" },
  { text = """
## 世界

日本語の長い段落です。これは狭い窓で折り返される必要があります。文字は二桁の幅を持ちます。

العربية: مرحبا بالعالم، هذه فقرة طويلة بما يكفي لتلتف في نافذة ضيقة.

Emoji 🎉 and 🗼, and <b>not markup</b>, with enough words after them to need a second line.

| 名 | valeur |
| --- | --- |
| 東京 | 🗼 |
""" },
]

[[responses]]
match = "slow"
delay_seconds = 0.1
chunk_characters = 6
contents = [{ text = "WORDS" }]

[[responses]]
match = "break"
contents = [{ text = "This breaks off in the middle." }]
fault = { at_chunk = 2, kind = "overloaded" }

[[responses]]
contents = [{ text = "You said: {input}" }]
'''.replace("CODE", _CODE).replace("WORDS", _WORDS)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with the script that the chats use."""
    (tmp_path / "script.toml").write_text(_SCRIPT)
    return tmp_path


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    """Collects terminals, to be closed at the end."""
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def _open_chat(
    home: Path,
    terminals: list[Terminal],
    *arguments: str,
    columns: int = 80,
    rows: int = 24,
    **variables: str,
) -> Terminal:
    chat = ("chat", "-m", "scripted:./script.toml", *arguments)
    terminal = Terminal(home, *chat, columns=columns, rows=rows, **variables)
    terminals.append(terminal)
    terminal.wait_for_prompt()
    return terminal


def _show(home: Path, *arguments: str) -> str:
    finished = subprocess.run(
        [*VIBE, *arguments],
        env=produce_environment(home),
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    return finished.stdout.decode()


def _access_newest(home: Path) -> str:
    return _show(home, "list").split("\t")[0]


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "rows"), [(40, 12), (160, 30)])
def test_long_code_is_shown_once_and_whole(
    home: Path, terminals: list[Terminal], columns: int, rows: int
) -> None:
    """Each line stands exactly once above the prompt, also where it did not fit at first."""
    terminal = _open_chat(home, terminals, columns=columns, rows=rows)

    terminal.type("code\r")
    terminal.wait_for("That was all of it.")
    lines = [line.strip() for line in terminal.wait_for_prompt().splitlines()]

    for number in range(40):
        assert lines.count(f"value_{number} = {number}") == 1
    assert lines.count("Here is code:") == 1
    assert lines.count("That was all of it.") == 1
    assert lines.index("value_0 = 0") < lines.index("value_39 = 39")


@pytest.mark.slow
@pytest.mark.parametrize("columns", [30, 160])
def test_words_of_the_world_are_shown_once(
    home: Path, terminals: list[Terminal], columns: int
) -> None:
    """Wide letters, emoji and what looks like HTML survive wrapping; nothing is doubled."""
    terminal = _open_chat(home, terminals, columns=columns, rows=16)

    terminal.type("world\r")
    terminal.wait_for("東京")
    text = re.sub(r"\s+", "", terminal.wait_for_prompt())

    assert text.count("考えています。ユーザーは世界の言葉を見たい。") == 1
    assert text.count("文字は二桁の幅を持ちます。") == 1
    assert text.count("نافذةضيقة") == 1
    assert text.count("<b>notmarkup</b>") == 1
    assert text.count("東京") == 1


@pytest.mark.slow
def test_control_c_stops_the_answer_and_not_the_program(
    home: Path, terminals: list[Terminal]
) -> None:
    """What came is stored, marked as interrupted, and the next message is answered."""
    terminal = _open_chat(home, terminals)

    terminal.type("slow\r")
    terminal.wait_for("word2")
    terminal.type("\x03")
    terminal.wait_for("Stopped.")
    terminal.wait_for_prompt()
    terminal.type("Hello\r")
    terminal.wait_for("You said: Hello")
    terminal.wait_for_prompt()
    terminal.type("\x04")

    assert terminal.wait_for_end() == 0
    kept = _show(home, "show", _access_newest(home))
    assert "interrupted" in kept
    assert "word1" in kept
    assert "word199" not in kept


@pytest.mark.slow
def test_control_c_at_the_prompt_does_not_leave(home: Path, terminals: list[Terminal]) -> None:
    """Ctrl-C clears the line and says how to leave; Ctrl-D leaves."""
    terminal = _open_chat(home, terminals)

    terminal.type("half a mess\x03")
    terminal.wait_for("Ctrl-D leaves")
    terminal.type("Hello\r")
    terminal.wait_for("You said: Hello")
    terminal.wait_for_prompt()
    terminal.type("\x04")

    assert terminal.wait_for_end() == 0


@pytest.mark.slow
def test_control_z_is_no_part_of_a_message(home: Path, terminals: list[Terminal]) -> None:
    """It suspends the chat, where a shell is there to wake it again."""
    terminal = _open_chat(home, terminals)

    terminal.type("\x1aHello\r")

    terminal.wait_for("You said: Hello")


@pytest.mark.slow
def test_no_colour_is_shown_to_whoever_wants_none(home: Path, terminals: list[Terminal]) -> None:
    """With ``NO_COLOR``, answers are bold or dim at most."""
    terminal = _open_chat(home, terminals, NO_COLOR="1")

    terminal.type("code\r")
    terminal.wait_for("That was all of it.")
    terminal.wait_for_prompt()

    styles = {
        word
        for words in re.findall(rb"\x1b\[([0-9;]*)m", terminal.raw)
        for word in words.split(b";")
    }
    assert b"1" in styles
    assert not [word for word in styles if re.fullmatch(rb"(3|4|9|10)[0-8]", word)]


@pytest.mark.slow
def test_a_terminal_that_can_rewrite_nothing_gets_plain_text(
    home: Path, terminals: list[Terminal]
) -> None:
    """Answers are written as they are where ``TERM`` is ``dumb``, and mistakes do not end it."""
    terminal = _open_chat(home, terminals, TERM="dumb")

    terminal.type("/nonsense\r")
    terminal.wait_for("Unknown command")
    terminal.type("code\r")
    terminal.wait_for(r"That was \*\*all\*\* of it.")

    assert b"\x1b[?2026h" not in terminal.raw


@pytest.mark.slow
def test_a_provider_that_breaks_costs_one_line(home: Path, terminals: list[Terminal]) -> None:
    """There is no traceback, what had come stays, and the chat goes on."""
    terminal = _open_chat(home, terminals)

    terminal.type("break\r")
    terminal.wait_for("overloaded")
    terminal.wait_for_prompt()
    terminal.type("Hello\r")
    text = terminal.wait_for("You said: Hello")

    assert "This break" in text
    assert "Traceback" not in text


@pytest.mark.slow
def test_pasted_lines_are_one_message(home: Path, terminals: list[Terminal]) -> None:
    """A bracketed paste is edited as a whole and sent by the next Enter."""
    terminal = _open_chat(home, terminals)

    terminal.type("\x1b[200~first line\nsecond line\n\n  third line\x1b[201~")
    terminal.wait_for("third line")
    terminal.type("\r")
    terminal.wait_for("You said: first line")
    terminal.wait_for_prompt()

    kept = _show(home, "show", _access_newest(home))
    assert "first line\nsecond line\n\n  third line\n" in kept
    assert kept.count("user ·") == 1


@pytest.mark.slow
@pytest.mark.parametrize("keys", ["\x1b\r", "\\\r"], ids=["alt-enter", "backslash"])
def test_a_message_can_have_several_lines(home: Path, terminals: list[Terminal], keys: str) -> None:
    """Alt-Enter begins a new line, and so does a backslash before Enter."""
    terminal = _open_chat(home, terminals)

    terminal.type(f"one{keys}two\r")
    terminal.wait_for("You said: one")
    terminal.wait_for_prompt()

    assert "one\ntwo\n" in _show(home, "show", _access_newest(home))


@pytest.mark.slow
def test_a_window_can_change_while_an_answer_arrives(home: Path, terminals: list[Terminal]) -> None:
    """What comes after is laid out for the new width, and every word is there."""
    terminal = _open_chat(home, terminals, columns=60, rows=20)

    terminal.type("slow\r")
    terminal.wait_for("word9")
    terminal.resize(100, 20)
    terminal.wait_for("word30")
    terminal.type("\x03")
    terminal.wait_for("Stopped.")
    words = re.findall(r"\bword(\d+)\b", terminal.wait_for_prompt())

    complete = words[:-1]  # the last may have been cut by the stop
    assert complete == [str(number) for number in range(len(complete))]
    assert len(complete) >= 30


@pytest.mark.slow
def test_a_conversation_goes_on_in_a_new_process(home: Path, terminals: list[Terminal]) -> None:
    """``--continue`` shows what was said and adds to it; without an id, to the newest."""
    first = _open_chat(home, terminals)
    first.type("Hello\r")
    first.wait_for("You said: Hello")
    first.wait_for_prompt()
    first.type("\x04")
    first.wait_for_end()

    second = _open_chat(home, terminals, "--continue")
    assert "You said: Hello" in second.read_text()
    second.type("Again\r")
    second.wait_for("You said: Again")
    second.wait_for_prompt()
    second.type("/quit\r")

    assert second.wait_for_end() == 0
    assert _show(home, "list").count("\n") == 1
    assert _show(home, "show", _access_newest(home)).count("user ·") == 2


@pytest.mark.slow
def test_slash_commands_are_completed(home: Path, terminals: list[Terminal]) -> None:
    """Tab completes the command; its summary is shown beside it."""
    terminal = _open_chat(home, terminals)

    terminal.type("/us")
    terminal.wait_for("Show usage")
    terminal.type("\t\r")

    terminal.wait_for("Nothing has been used yet")


@pytest.mark.slow
def test_tab_completes_a_command_however_fast_it_is_typed(
    home: Path, terminals: list[Terminal]
) -> None:
    """One that is pressed while completions are still looked for is not lost."""
    terminal = _open_chat(home, terminals)

    terminal.type("/us\t\r")

    terminal.wait_for("Nothing has been used yet")


@pytest.mark.slow
def test_what_was_typed_is_remembered(home: Path, terminals: list[Terminal]) -> None:
    """The up arrow brings back messages of earlier chats, from a file only its owner reads."""
    first = _open_chat(home, terminals)
    first.type("Remember me\r")
    first.wait_for("You said: Remember me")
    first.wait_for_prompt()
    first.type("\x04")
    first.wait_for_end()

    second = _open_chat(home, terminals)
    second.type("\x1b[A\r")

    second.wait_for("You said: Remember me")
    history = home / ".local/share/vibe-llms/chat-history"
    assert history.stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_nothing_a_model_says_commands_the_terminal(home: Path, terminals: list[Terminal]) -> None:
    """Control characters in an answer are shown as signs."""
    (home / "script.toml").write_text(
        '[[responses]]\ncontents = [{ text = "a\\u001b]0;owned\\u0007b\\u001b[2Jc" }]\n'
    )
    terminal = _open_chat(home, terminals)

    terminal.type("x\r")
    terminal.wait_for("owned")
    terminal.wait_for_prompt()

    assert b"\x1b]0;owned" not in terminal.raw
    assert terminal.screen.title != "owned"


@pytest.mark.slow
def test_lines_of_a_pipe_are_messages(home: Path) -> None:
    """Without a terminal each line is a turn, and standard output has the answers only."""
    finished = subprocess.run(
        [*VIBE, "chat"],
        env=produce_environment(home),
        cwd=home,
        input="Hello\n\n日本語\n".encode(),
        capture_output=True,
        check=False,
    )

    assert finished.returncode == 0
    assert finished.stdout.decode() == "Hello\n日本語\n"
    assert finished.stderr == b""
    assert _show(home, "show", _access_newest(home)).count("user ·") == 2


@pytest.mark.slow
def test_an_interrupt_in_a_pipe_ends_the_program_and_keeps_what_came(home: Path) -> None:
    """Nobody could go on: the exit code is 130, and the partial answer is stored."""
    with subprocess.Popen(
        [*VIBE, "ask", "-m", "scripted:./script.toml", "slow"],
        env=produce_environment(home),
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 130
    assert b"Traceback" not in errors
    assert "interrupted" in _show(home, "show", _access_newest(home))


@pytest.mark.slow
def test_keys_pressed_meanwhile_do_not_disturb_the_answer(
    home: Path, terminals: list[Terminal]
) -> None:
    """What is typed while an answer arrives is shown by the next prompt, and not before."""
    terminal = _open_chat(home, terminals)

    terminal.type("slow\r")
    terminal.wait_for("word2")
    terminal.type("typed ahead")
    terminal.wait_for("word6")
    terminal.type("\x03")
    text = terminal.wait_for("Stopped.")

    assert "typed ahead" not in text
    assert "^C" not in text
