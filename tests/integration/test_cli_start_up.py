"""A command imports what it needs and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.screens.command_line import produce_environment

_HEAVY = (
    "aiohttp",
    "anthropic",
    "httpx",
    "jinja2",
    "jsonschema",
    "llama_cpp",
    "obstore",
    "openai",
    "prompt_toolkit",
    "pydantic",
    "rich",
    "xllamacpp",
)
_PROBE = """
import atexit, sys
from vibe_llms.interfaces.cli.entry import main
sys.argv = ["vibe", *sys.argv[1:]]
atexit.register(lambda: print("\\n".join(sorted(sys.modules)), file=sys.stderr))
main()
"""


def _survey_modules(home: Path, *arguments: str, **environment: str) -> set[str]:
    """Performs a command line in a process of its own and returns what it imported."""
    finished = subprocess.run(
        [sys.executable, "-c", _PROBE, *arguments],
        env=produce_environment(home, **environment),
        cwd=home,
        input=b"",
        capture_output=True,
        check=False,
    )
    return set(finished.stderr.decode().split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("list",),
        ("runs", "list"),
        ("search", "word"),
        ("providers",),
        ("models", "list"),
        ("models", "show", "local"),
        ("config", "show"),
        ("config", "path"),
        ("verify",),
        ("gc",),
        ("show", "zz"),
        ("fork", "zz"),
        ("rename", "zz", "name"),
        ("delete", "zz", "--yes"),
        ("completion", "bash"),
        ("nonsense",),
    ],
    ids=" ".join,
)
def test_no_command_but_the_conversing_ones_imports_anything_heavy(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """No SDK, HTTP client, widget, validator or inference library comes in."""
    modules = _survey_modules(tmp_path, *arguments)

    assert "vibe_llms.interfaces.cli.entry" in modules
    assert modules.isdisjoint(_HEAVY)


def test_the_version_is_answered_before_anything_is_imported(tmp_path: Path) -> None:
    """Not even click."""
    modules = _survey_modules(tmp_path, "--version")

    assert {name for name in modules if name.startswith("vibe_llms")} == {
        "vibe_llms",
        "vibe_llms.foundation.version",
        *{name for name in modules if name.startswith("vibe_llms.") and _is_ground(name)},
    }
    assert "click" not in modules


def _is_ground(name: str) -> bool:
    return name in {
        "vibe_llms.foundation",
        "vibe_llms.foundation.lazy_imports",
        "vibe_llms.interfaces",
        "vibe_llms.interfaces.cli",
        "vibe_llms.interfaces.cli.entry",
    }


@pytest.mark.parametrize("arguments", [("--help",), ("list",)], ids=" ".join)
def test_help_and_lists_need_no_event_loop(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Nor a codec for messages."""
    modules = _survey_modules(tmp_path, *arguments)

    assert modules.isdisjoint({"asyncio", "cattrs", "msgspec"})


def test_a_model_is_imported_without_an_event_loop(tmp_path: Path) -> None:
    """Which is half of what an import would take; whoever asks the model has one anyway."""
    program = "from vibe_llms import Model, SyncModel; import sys; print(*sys.modules)"
    finished = subprocess.run(
        [sys.executable, "-c", program],
        env=produce_environment(tmp_path),
        capture_output=True,
        check=True,
    )

    modules = set(finished.stdout.decode().split())
    assert "vibe_llms.instruments.models" in modules
    assert modules.isdisjoint({"asyncio", "cattrs", "concurrent.futures", "msgspec", "ssl"})


def test_help_imports_no_command(tmp_path: Path) -> None:
    """The help of all commands comes from one table."""
    modules = _survey_modules(tmp_path, "--help")

    commands = "vibe_llms.interfaces.cli.commands."
    assert not [name for name in modules if name.startswith(commands)]
    assert "attrs" not in modules


@pytest.mark.slow
@pytest.mark.parametrize("questions", [0, 1])
def test_a_list_needs_no_attrs(tmp_path: Path, questions: int) -> None:
    """Neither to read the configuration nor to index what was said since the last list."""
    for _ in range(questions):
        _survey_modules(tmp_path, "ask", "--model", "scripted:echo", "Hello")

    modules = _survey_modules(tmp_path, "list")

    assert "vibe_llms.configuration.classes" in modules
    assert ("vibe_llms.conversations.index.index_writer" in modules) == bool(questions)
    assert modules.isdisjoint({"attr", "attrs"})


def test_a_tab_imports_no_command_that_is_not_named(tmp_path: Path) -> None:
    """To complete a command's name costs no command."""
    modules = _survey_modules(
        tmp_path, _VIBE_COMPLETE="bash_complete", COMP_WORDS="vibe re", COMP_CWORD="1"
    )

    assert "click.shell_completion" in modules
    assert not [n for n in modules if n.startswith("vibe_llms.interfaces.cli.commands.")]
    assert modules.isdisjoint(_HEAVY)


@pytest.mark.slow
def test_ask_with_a_script_needs_no_widgets(tmp_path: Path) -> None:
    """One question is answered without rich, prompt_toolkit or any vendor's library."""
    modules = _survey_modules(tmp_path, "ask", "Hello")

    assert "vibe_llms.providers.scripted.client" in modules
    assert modules.isdisjoint(_HEAVY)


_CLASSES = """
import atexit, sys
import attrs
made = []
for name in ("define", "frozen"):
    def count(cls=None, *, make=getattr(attrs, name), **settings):
        decorated = make(cls, **settings)
        if cls is None:
            return lambda cls: made.append(cls) or decorated(cls)
        made.append(cls)
        return decorated
    setattr(attrs, name, count)
atexit.register(lambda: print(len(made), file=sys.stderr))
"""
"""Counts the classes that are made with attrs, which cost more than anything else at the start."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "limit"),
    [
        ("from vibe_llms import Model", 33),
        ("from vibe_llms.interfaces.cli.entry import main; main()", 128),
        ("import vibe_llms", 0),
    ],
)
def test_a_start_makes_no_more_classes_than_it_did(
    tmp_path: Path, program: str, limit: int
) -> None:
    """A change that needs another class at each start fails here; import it later instead."""
    finished = subprocess.run(
        [sys.executable, "-c", _CLASSES + program, "ask", "Hello"],
        env=produce_environment(tmp_path),
        cwd=tmp_path,
        input=b"",
        capture_output=True,
        check=True,
    )

    assert int(finished.stderr.split()[-1]) <= limit


@pytest.mark.slow
@pytest.mark.parametrize("waits", [False, True])
def test_who_has_registered_for_the_end_is_told(tmp_path: Path, waits: bool) -> None:
    """The process ends at once only where nothing is left to close; all output is there."""
    code = "from vibe_llms.interfaces.cli.entry import main; import atexit, sys; "
    code += "atexit.register(print, 'closed'); " if waits else ""
    finished = subprocess.run(
        [sys.executable, "-c", code + "sys.argv = ['vibe', 'show', 'zz']; main()"],
        env=produce_environment(tmp_path),
        capture_output=True,
        check=False,
    )

    assert finished.returncode == 4
    assert finished.stdout == (b"closed\n" if waits else b"")
    assert finished.stderr.startswith(b"vibe: error: ")


def _survey_daemon(home: Path, *arguments: str) -> set[str]:
    """Starts a daemon in a process of its own; returns what it has imported when it is ready."""
    with subprocess.Popen(
        [sys.executable, "-c", _PROBE, "serve", *arguments, "--port", "0"],
        env=produce_environment(home),
        cwd=home,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as daemon:
        assert daemon.stderr is not None
        while b" on http://" not in (line := daemon.stderr.readline()):
            assert line, "it ended"
        os.kill(daemon.pid, signal.SIGINT)
        return set(daemon.stderr.read().decode().split())


@pytest.mark.parametrize(
    ("arguments", "later"),
    [
        (("tools",), {"mcp", "mcp_types", "pydantic", "starlette", "anyio", "prometheus_client"}),
        (
            ("agents", "--gateway", "http://127.0.0.1:1"),
            {"mcp", "pydantic", "sqlalchemy", "dbos", "aiohttp", "vibe_llms.mermaid"}
            | {"vibe_llms.flows.adapter", "vibe_llms.batches.work", "prometheus_client"},
        ),
    ],
    ids=["tools", "agents"],
)
def test_a_daemon_is_ready_before_it_imports_what_serves_requests(
    tmp_path: Path, arguments: tuple[str, ...], later: set[str]
) -> None:
    """Flows, batches, the package mcp: the first request that needs them imports them."""
    modules = _survey_daemon(tmp_path, *arguments)

    assert "vibe_llms.daemons.service" in modules
    assert modules.isdisjoint(later)


def test_a_question_imports_no_plugin_specification_that_it_does_not_need(tmp_path: Path) -> None:
    """Nor a client of HTTP, nor a widget."""
    modules = _survey_modules(tmp_path, "ask", "-m", "scripted:echo", "Hello")

    assert "vibe_llms.providers.scripted.client" in modules
    assert modules.isdisjoint(_HEAVY)
    specification = "vibe_llms.plugins.specification"
    unneeded = {"flows", "authorizers", "conversations", "daemons", "runs", "users"}
    assert modules.isdisjoint({f"{specification}.{name}" for name in unneeded})


def test_a_question_imports_no_module_that_its_answer_does_not_need(tmp_path: Path) -> None:
    """No events of reactors without a reactor, no lines of keys without a mistake; no TLS."""
    modules = _survey_modules(tmp_path, "ask", "-m", "scripted:echo", "Hello")

    assert modules.isdisjoint(
        {
            "vibe_llms.dialects.separators",
            "vibe_llms.events.conversation",
            "vibe_llms.events.reactors",
            "vibe_llms.providers.answer_events",
            "vibe_llms.providers.requirements",
            "vibe_llms.tables.toml_lines",
            "_ssl",
            "typing_inspection",
        }
    )
    assert sum(name.startswith("vibe_llms") for name in modules) <= 180


def test_a_question_runs_no_deferred_module(tmp_path: Path) -> None:
    """A library that uses one of them at its import must leave the list."""
    program = _PROBE + "\n".join(
        (
            "",
            "from vibe_llms.foundation.deferred_modules import DEFERRED, DeferredModule",
            "names = DEFERRED & sys.modules.keys()",
            "print(*(n for n in names if type(sys.modules[n]) is not DeferredModule))",
        )
    )
    program = program.replace(
        "main()\n", "code = 0\ntry:\n    main()\nexcept SystemExit:\n    pass\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program, "ask", "-m", "scripted:echo", "Hello"],
        env=produce_environment(tmp_path),
        cwd=tmp_path,
        input=b"",
        capture_output=True,
        check=True,
    )

    assert finished.stdout.decode().split() == ["Hello"]
