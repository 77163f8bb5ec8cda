"""The code in the README and the documentation is run as it is printed.

A page is one session, from top to bottom. Blocks of Python share their names; a text block of
the class ``output`` that follows is what they print, ``...`` standing for anything, and without
one they print nothing. In console blocks each line that begins with ``$`` is run, and what stands
below it is what it prints, likewise. A text block of the class ``chat`` is a session in a
terminal: what stands behind a prompt or a question is typed, and at the end the screen shows the
block. A block with a caption is a file, put into the folder in which the page is run where it is
reached; one that is called ``config.toml`` is the reader's configuration. In blocks of the class
``told`` remarks on standard error are part of what is printed, as in a terminal; the console blocks
of tutorials are run in one, and show its screen. As for a reader,
nothing in that folder can be imported but by a program that is run there. Blocks of the class
``weights`` talk with the embedded model. Shell blocks set up machines; CI runs those.
"""

from __future__ import annotations

import ast
import contextlib
import os
import pty
import re
import subprocess
import sys
import termios
import textwrap
import tomllib
from pathlib import Path
from typing import NamedTuple

import pyte
import pytest

from support.runs.scripting import write_script
from support.screens.pseudoterminals import Terminal
from support.vendors import embedded

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.rst",
    *(
        page
        for folder in ("tutorials", "guides", "authors", "reference")
        for page in sorted((ROOT / "documentation" / folder).glob("*.rst"))
    ),
]
ELSEWHERE = {"first-gateway.rst", "first-provider.rst"}
"""Followed in an environment of their own, in ``test_gateway_tutorial`` and
``test_first_provider_guide``."""

LONG = {
    *("batches.rst", "mcp.rst", "vendors.rst", "watching-runs.rst", "flow-looks.rst"),
    *("first-ensemble.rst", "testing-your-provider.rst"),
}
"""These start several programs, or official libraries, and take seconds of a core each: slow."""

SECONDS = 600
"""How long a page may take before it counts as stuck."""

_BLOCK = re.compile(
    r"^\.\. code-block:: (?P<language>[\w+-]+)\n(?P<options>(?:   :.*\n)*)\n"
    r"(?P<text>(?:   .*\n|\n)+)",
    re.MULTILINE,
)
_ADDRESS = re.compile(r"\b(anthropic|google|openai\w*):((?:claude|gemini|gpt)-[a-z0-9.-]*[a-z0-9])")
"""The address of a model at a vendor that has made it."""

_OTHER_GENUS = re.compile("image|transcribe|tts")
"""In the names of models that do something else than converse; they have their own numbers."""

_STREAMING = re.compile(r"\.text:\n|content\.delta|progress=|body_iterator")
"""What a program does that shows an answer while it arrives."""

_MODEL = re.compile(r"(['\"])(?:scripted:echo|local:smollm2)\1")
_KEPT = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SEPARATOR = "\x1e"
_TYPED = re.compile(r"(> |.*\? )(\S.*)")
"""A line of a terminal on which something was typed: behind the prompt, or behind a question."""


class Block(NamedTuple):
    """A block of code, where it stands, and what it is marked as."""

    language: str
    line: int
    caption: str
    classes: frozenset[str]
    text: str


def read_blocks(page: Path) -> list[Block]:
    """Returns the blocks of a page in their order."""
    source = page.read_text(encoding="utf-8")
    blocks = []
    for found in _BLOCK.finditer(source):
        options = dict(re.findall(r":(\w+): (.*)", found["options"]))
        blocks.append(
            Block(
                found["language"],
                source.count("\n", 0, found.start()) + 1,
                options.get("caption", ""),
                frozenset(options.get("class", "").split()),
                textwrap.dedent(found["text"]).strip("\n") + "\n",
            )
        )
    return blocks


def collect_pages() -> list[object]:
    """Returns the pages that have something to run, marked where they need the weights."""
    pages = []
    for page in PAGES:
        runnable = [each for each in read_blocks(page) if each.language in ("python", "console")]
        if any(not block.caption for block in runnable) and page.name not in ELSEWHERE:
            needs_weights = any("weights" in block.classes for block in runnable)
            marks = [pytest.mark.weights] if needs_weights else []
            if page.name in LONG:
                marks.append(pytest.mark.slow)
            pages.append(pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks))
    return pages


class Session:
    """A reader who follows a page in a folder and a home of their own."""

    def __init__(self, folder: Path, blocks: list[Block]) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        data = folder / "data" / "vibe-llms"
        if any("weights" in block.classes for block in blocks):
            embedded.lend_weights(data)
        programs = self.folder / ".venv" / "bin"  # where the first command of the README puts it
        programs.mkdir(parents=True)
        command = programs / "vibe"
        command.write_text(
            f"#!{sys.executable}\nfrom vibe_llms.interfaces.cli.entry import main\n\nmain()\n"
        )
        command.chmod(0o755)
        kept = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
        self.environment = {
            **kept,
            "COLUMNS": "80",
            "HOME": str(folder),
            "PIP_NO_BUILD_ISOLATION": "0",  # as of yes: what builds is installed here
            "PIP_NO_INDEX": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.defpath}",
            "PYTHONPATH": str(ROOT / "sources"),
            "PYTHONWARNINGS": "error",
            "PYTHONIOENCODING": "utf-8",
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_DATA_HOME": str(folder / "data"),
        }

    def write(self, block: Block) -> None:
        """Writes a file, as somebody does who reads of it."""
        is_configuration = block.caption == "config.toml"
        home = Path(self.environment["XDG_CONFIG_HOME"], "vibe-llms")
        file = (home if is_configuration else self.folder) / block.caption
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text, encoding="utf-8")

    def run(self, *arguments: str, told: bool = False) -> str:
        """Runs a program and returns what it prints; it must succeed and complain of nothing.

        Args:
            told: What it remarks on standard error is printed, too.
        """
        outcome = subprocess.run(
            arguments,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if told else subprocess.PIPE,
            text=True,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )
        complaint = f"{outcome.stdout}\n{outcome.stderr}"
        assert outcome.returncode == 0, complaint
        assert not outcome.stderr, complaint
        return outcome.stdout

    def export(self, name: str, value: str) -> None:
        """Sets a variable, in front of what it has."""
        former = self.environment.get(name)
        self.environment[name] = os.pathsep.join(filter(None, [value, former]))

    def run_in_terminal(self, command: str) -> str:
        """Runs a command in a terminal and returns what its screen shows; it must succeed."""
        screen = pyte.HistoryScreen(160, 200)
        stream = pyte.ByteStream(screen)
        terminal, side = pty.openpty()
        termios.tcsetwinsize(side, (200, 160))
        program = subprocess.Popen(
            ["sh", "-c", command],
            cwd=self.folder,
            env={**self.environment, "TERM": "xterm-256color", "COLUMNS": "160"},
            stdin=side,
            stdout=side,
            stderr=side,
            start_new_session=True,
        )
        os.close(side)
        with contextlib.suppress(OSError):  # the other side is closed
            while True:
                stream.feed(os.read(terminal, 65536))
        os.close(terminal)
        shown = "\n".join(line.rstrip() for line in screen.display).strip()
        assert program.wait(SECONDS) == 0, shown
        return shown

    def chat(self, block: Block, place: str) -> None:
        """Types what a block says, and compares what the screen shows in the end."""
        lines = block.text.splitlines()
        name, *arguments = lines[0].removeprefix("$ ").split()
        assert name == "vibe", place
        terminal = Terminal(
            self.folder, *arguments, columns=160, rows=200, environment=self.environment
        )
        try:
            for line in lines[1:]:
                if typed := _TYPED.match(line):
                    before = terminal.wait_for(rf"{re.escape(typed[1].strip())}\s*\Z")
                    terminal.type(f"{typed[2]}\r")
                    times = before.count(line) + 1
                    terminal.wait_for(f"(?s)(.*{re.escape(line)}){{{times}}}")
            shown = terminal.wait_for_prompt()
            terminal.type("\x04")
            assert terminal.wait_for_end() == 0, shown
        finally:
            terminal.close()
        written = "\n".join(line.rstrip() for line in shown.splitlines() if line.strip(" >"))
        check_output(written, "\n".join(lines[1:]), place)

    def run_python(self, blocks: list[Block]) -> list[str]:
        """Runs blocks as one program and returns what each prints."""
        program = f"print({_SEPARATOR!r})\n".join(block.text for block in blocks)
        return self.run(sys.executable, "-c", program).split(f"{_SEPARATOR}\n")


def check_output(actual: str, expected: str, place: str) -> None:
    """Compares what was printed with what the page says, ``...`` standing for anything."""
    pattern = ".*".join(re.escape(part) for part in expected.strip().split("..."))
    assert re.fullmatch(pattern, actual.strip(), re.DOTALL), (
        f"{place}: the page says\n{expected}\nand this was printed:\n{actual}"
    )


def read_commands(block: Block) -> list[tuple[str, str]]:
    """Returns the commands of a console block, each with what it prints."""
    sessions = re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
    return [(each.partition("\n")[0], each.partition("\n")[2]) for each in sessions]


@pytest.mark.slow
@pytest.mark.parametrize("page", collect_pages())
def test_the_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    """Who follows a page of the documentation gets what the page shows."""
    blocks = read_blocks(page)
    session = Session(tmp_path, blocks)

    for block in blocks:
        if block.caption:
            session.write(block)
        elif block.language == "console":
            for command, expected in read_commands(block):
                if set_here := re.fullmatch(r"export (\w+)=(\S+)", command):
                    session.export(*set_here.groups())  # for the rest of the page
                    continue
                if page.parent.name == "tutorials":  # which show what a terminal shows
                    printed = session.run_in_terminal(command)
                else:
                    printed = session.run("sh", "-c", command, told="told" in block.classes)
                check_output(printed, expected, f"{page.name}:{block.line}: {command}")
        elif "chat" in block.classes:
            session.chat(block, f"{page.name}:{block.line}")
    programs = [block for block in blocks if block.language == "python" and not block.caption]
    outputs = session.run_python(programs) if programs else []
    for program, printed in zip(programs, outputs, strict=True):
        following = blocks[blocks.index(program) + 1 :][:1]
        is_shown = bool(following) and "output" in following[0].classes
        expected = following[0].text if is_shown else ""
        check_output(printed, expected, f"{page.name}:{program.line}")


def collect_streaming() -> list[object]:
    """Returns the programs of the pages that show an answer while it arrives."""
    return [
        pytest.param(compose_alone(page, block), id=f"{page.relative_to(ROOT)}:{block.line}")
        for page in PAGES
        for block in read_blocks(page)
        if block.language == "python" and _STREAMING.search(block.text) and "print(" in block.text
    ]


def compose_alone(page: Path, block: Block) -> str:
    """Returns a block behind all that the page imports and defines before it."""
    before = [
        ast.unparse(statement)
        for each in read_blocks(page)
        if each.language == "python" and not each.caption and each.line < block.line
        for statement in ast.parse(each.text).body
        if isinstance(statement, _KEPT)
    ]
    return "\n".join([*before, block.text])


@pytest.mark.slow
@pytest.mark.parametrize("program", collect_streaming())
def test_an_example_shows_the_answer_and_not_what_the_model_thinks(
    program: str, tmp_path: Path
) -> None:
    """What an example prints of a model that reasons and calls is the words of its answer."""
    script = write_script(
        tmp_path,
        {
            "chunk_characters": 0,
            "contents": [
                {"reasoning": "The user is annoying."},
                {"text": "It rains."},
                {"invocation": {"name": "look_up", "arguments": '{"place": "Rome"}'}},
            ],
        },
    )
    thinking, times = _MODEL.subn(f'"scripted:{script}"', program)
    assert times, program

    printed = Session(tmp_path, []).run(sys.executable, "-c", thinking)

    assert "It rains." in printed
    assert "annoying" not in printed
    assert "Rome" not in printed


def test_examples_that_stream_are_found() -> None:
    """The guide and the README have one each, at least; what matches nothing would hold nothing."""
    assert len(collect_streaming()) >= 5


def test_all_pages_ask_the_model_that_is_configured_for_its_vendor() -> None:
    """One name over all pages, and none that its vendor has replaced since."""
    text = (ROOT / "data" / "configuration" / "defaults.toml").read_text("utf-8")
    providers = tomllib.loads(text)["providers"]
    usual = {name: str(table.get("model")) for name, table in providers.items()}
    usual["openai"] = usual["openai_responses"]
    places = [
        (f"{page.name}: {found[0]}", usual[found[1]], found[2])
        for page in (*PAGES, ROOT / "documentation" / "index.rst")
        for found in _ADDRESS.finditer(page.read_text("utf-8"))
        if found[1] in ("anthropic", "google", "openai", "openai_responses")
        and not _OTHER_GENUS.search(found[2])
    ]

    assert len(places) > 20
    other = [place for place, due, name in places if not is_of_one_generation(name, due)]
    assert other == []


def is_of_one_generation(name: str, usual: str) -> bool:
    """Tell whether a model is the usual one, or its smaller or larger sibling."""
    return re.sub("[a-z]+", "", name).strip("-") == re.sub("[a-z]+", "", usual).strip("-")


def test_every_long_page_is_there() -> None:
    """A name that no page has would leave its page to the quick run, or hide that it went."""
    assert {page.name for page in PAGES} >= LONG


def test_every_block_is_found() -> None:
    """No block of code escapes the tests because of how it is written down."""
    for page in PAGES:
        written = re.findall(r"^ *\.\. code-block::", page.read_text("utf-8"), re.MULTILINE)
        assert len(read_blocks(page)) == len(written), page.name


def test_what_a_page_shows_as_printed_says_something() -> None:
    """An output that could be anything holds an example to nothing."""
    shown = [
        (f"{page.name}:{block.line}", expected)
        for page in PAGES
        for block in read_blocks(page)
        for expected in (
            [block.text]
            if "output" in block.classes
            else [printed for _, printed in read_commands(block) if printed]
        )
    ]

    assert not [place for place, expected in shown if not re.search(r"\w", expected)]


def test_the_readme_begins_with_its_two_commands() -> None:
    """The first thing to read is one line to converse, and then one line to run the tests."""
    commands = [block for block in read_blocks(ROOT / "README.rst") if block.language == "sh"]

    assert [command.text.count("\n") for command in commands] == [1, 1]
    assert commands[0].text.endswith(".venv/bin/vibe chat --yes\n")
    assert commands[1].text.endswith(".venv/bin/python -m pytest\n")
