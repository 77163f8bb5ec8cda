"""The ensemble ``shell`` runs one command at a time, in bounds, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import vibe_llms
from support.runs.invoking import connect_ensembles, produce_ensemble_context
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.invocables.invokers import Effect
from vibe_llms.invocables.outcomes import Outcome
from vibe_llms.invocables.shipped.shell import survey_ensembles
from vibe_llms.invocables.shipped.shell.command_execution import HEAD_BYTES, TAIL_BYTES, Output
from vibe_llms.invocables.shipped.shell.ensemble import ShellEnsemble
from vibe_llms.invocables.shipped.shell.settings import ShellSettings, produce_environment

SOURCES = Path(vibe_llms.__file__).parents[1]


def produce_shell(directory: Path, **settings: Any) -> ShellEnsemble:
    return ShellEnsemble(ShellSettings(working_directory=directory, **settings))


async def run(directory: Path, command: str, start: str = ".", **settings: Any) -> Outcome:
    """Runs a command in an ensemble of its own."""
    async with connect_ensembles(produce_shell(directory, **settings)) as invoke:
        outcome: Outcome = await invoke("run_command", command=command, directory=start)
    return outcome


def find_marked(mark: str) -> list[int]:
    """Returns the processes whose command line has a mark."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = process.info["cmdline"] or []
        if process.info["status"] != psutil.STATUS_ZOMBIE and mark in " ".join(line):
            found.append(process.pid)
    return found


def await_none(mark: str) -> list[int]:
    """Waits for a moment until no process has a mark; returns those that still do."""
    for _ in range(1_200):
        if not find_marked(mark):
            return []
        time.sleep(0.05)
    return find_marked(mark)


@pytest.fixture
def mark() -> Iterator[str]:
    """A number of seconds that no other sleeps for."""
    chosen = f"{100_000 + os.getpid()}.{time.monotonic_ns() % 1_000_000_000}"
    yield chosen
    for process in find_marked(f"sleep {chosen}"):
        os.kill(process, signal.SIGKILL)


async def test_a_command_brings_its_output_and_its_exit_code(tmp_path: Path) -> None:
    """Both outputs in their order; a code other than 0 is told, and is no failure of the call."""
    (tmp_path / "sub").mkdir()

    outcome = await run(tmp_path, "echo one; echo two >&2; pwd; exit 3", "sub")

    assert outcome.text == f"one\ntwo\n{tmp_path / 'sub'}\n\n[exit code 3]"
    assert not outcome.is_error
    assert (await run(tmp_path, "true")).text == "[no output]"
    assert (await run(tmp_path, "kill -TERM $$")).text == "[exit code 143]"


async def test_a_command_asks_first_and_is_never_repeated(tmp_path: Path) -> None:
    """Whoever is asked reads what bounds it."""
    (invoker,) = await produce_shell(tmp_path, seconds=7).survey()

    assert (invoker.needs_approval, invoker.effect) == (True, Effect.ONCE)
    assert f"7 seconds and starts in: {tmp_path}." in invoker.description


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("-x", "-x: not found"),
        ("-c id", "-c: not found"),
        ("--version", "--version: not found"),
        ("-- id", "not found"),
        ("echo one\necho two", "one\ntwo\n"),
        ("echo '", "nterminated"),
    ],
)
async def test_no_command_becomes_an_option_of_the_shell(
    tmp_path: Path, command: str, text: str
) -> None:
    """Whatever it begins with, it is the text that was approved."""
    assert text in (await run(tmp_path, command)).text


@pytest.mark.parametrize("command", ["", " \n", "id\0", "x" * 200_000, "echo \ud800"])
async def test_what_is_no_command_is_refused(tmp_path: Path, command: str) -> None:
    """In words, before anything is started."""
    outcome = await run(tmp_path, command)

    assert outcome.is_error
    assert "ommand" in outcome.text
    assert len(outcome.text) < 200


@pytest.mark.parametrize("start", ["..", "/", "/proc/self/cwd/..", "out", "absent", "file", "a\0"])
async def test_a_command_begins_nowhere_else(tmp_path: Path, start: str) -> None:
    """Neither by ``..`` nor by a link nor where there is no directory."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "file").touch()
    (inside / "out").symlink_to(tmp_path)

    outcome = await run(inside, "touch was-here", start)

    assert outcome.is_error
    assert not list(tmp_path.rglob("was-here"))


async def test_no_secret_is_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Little is passed on; what the user names besides is."""
    for name in ("ANTHROPIC_API_KEY", "GITHUB_TOKEN", "AWS_PROFILE", "LD_PRELOAD_X", "CHOSEN"):
        monkeypatch.setenv(name, "canary")

    text = (await run(tmp_path, "env", variables=("CHOSEN",))).text

    assert [line for line in text.splitlines() if "canary" in line] == ["CHOSEN=canary"]
    assert "PATH=" in text
    assert produce_environment({"PATH": "/bin", "KEY": "x"}, ())["PATH"] == "/bin"


async def test_a_command_has_no_input_and_no_terminal(tmp_path: Path) -> None:
    """It reads the end at once, and cannot ask anybody around us."""
    command = "cat; (: < /dev/tty) 2>/dev/null || echo none; ls /proc/self/fd | wc -l"

    outcome = await run(tmp_path, command)

    first, _, count = outcome.text.partition("\n")
    assert first == "none"
    assert int(count) <= 4  # three, and the listing itself: no descriptor of ours


async def test_a_flood_ends_the_command_while_it_runs(tmp_path: Path) -> None:
    """What is shown has its beginning and its end."""
    outcome = await run(tmp_path, "echo first; yes", output_bytes=1_000_000, seconds=60)

    assert outcome.is_error
    assert outcome.text.startswith("first\ny\n")
    assert "wrote more than 1000000 bytes and was killed" in outcome.text
    assert "bytes left out" in outcome.text
    assert len(outcome.text) < HEAD_BYTES + TAIL_BYTES + 200


def test_the_beginning_and_the_end_of_an_output_are_kept() -> None:
    """In bounded space, whatever the pieces; nothing is lost of what is short."""
    data = bytes(range(32, 127)) * 5_000
    for size in (10, HEAD_BYTES, HEAD_BYTES + 1, HEAD_BYTES + TAIL_BYTES, len(data)):
        for piece in (1_000, 65_536):
            output = Output()
            for start in range(0, size, piece):
                output.add(data[start : min(size, start + piece)])
            text = output.compose()
            left_out = size - HEAD_BYTES - TAIL_BYTES
            if left_out <= 0:
                assert text == data[:size].decode()
            else:
                head, tail = data[:HEAD_BYTES].decode(), data[size - TAIL_BYTES : size].decode()
                assert text == f"{head}\n[… {left_out} bytes left out …]\n{tail}"


LEAVINGS = {
    "child": "sleep {0} & echo ready; wait",
    "deaf": "trap '' TERM INT HUP; sleep {0} & echo ready; sleep {0}",
    "session": "setsid sleep {0} & echo ready; wait",
    "daemon": "(setsid setsid sh -c 'sleep {0} & sleep {0}' </dev/null >/dev/null 2>&1 &); "
    "echo ready; sleep {0}",
    "nohup": "nohup sleep {0} >/dev/null 2>&1 & disown 2>/dev/null; echo ready; sleep {0}",
}
"""How commands leave something behind."""

is_linux = sys.platform == "linux"  # elsewhere a session of its own escapes, as the guide says


def is_within(after: tuple[int, ...], before: tuple[int, ...]) -> bool:
    """Tells whether nothing is more; less may be, as what came before was about to end."""
    return all(now <= then for now, then in zip(after, before, strict=True))


def count_ours() -> tuple[int, int, int, int]:
    """Counts what may not be left: descriptors, threads, tasks and children."""
    return (
        len(list(Path("/dev/fd").iterdir())),
        sum(not thread.name.startswith("vibe-llms-invocable") for thread in threading.enumerate()),
        len(asyncio.all_tasks()),
        len(psutil.Process().children(recursive=True)),
    )


@pytest.mark.slow
@pytest.mark.skipif(not is_linux, reason="sessions of their own are found on Linux alone")
@pytest.mark.parametrize("ending", ["itself", "time", "flood", "cancelled", "at once"])
@pytest.mark.parametrize("way", LEAVINGS)
async def test_nothing_is_left_of_a_command(
    tmp_path: Path, mark: str, way: str, ending: str
) -> None:
    """However it ends and whatever it began: no process, thread, task or descriptor."""
    command = LEAVINGS[way].format(mark)
    if ending == "itself":
        command = command.replace("; wait", "").rpartition(f"; sleep {mark}")[0] or command
        command = command.replace("; wait", "")
    if ending == "flood":
        command = command.replace("echo ready", "yes")
    async with connect_ensembles(
        produce_shell(tmp_path, seconds=0.5, output_bytes=1_000)
    ) as invoke:
        await invoke("run_command", command="true")  # what is made once has been made
        before = count_ours()
        call = asyncio.ensure_future(invoke("run_command", command=command))
        if ending in ("cancelled", "at once"):
            await asyncio.sleep(0.3 if ending == "cancelled" else 0.001)
            call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        for _ in range(3_000):  # the thread that waited for the process is about to end
            if is_within(count_ours(), before):
                break
            await asyncio.sleep(0.02)
        after = count_ours()

    assert await_none(f"sleep {mark}") == []
    assert is_within(after, before), (after, before)


@pytest.mark.slow
@pytest.mark.skipif(not is_linux, reason="sessions of their own are found on Linux alone")
def test_nothing_is_left_when_we_are_killed(tmp_path: Path, mark: str) -> None:
    """Not even by kill -9, which lets nobody clean up."""
    program = f"""
import asyncio
from pathlib import Path
from vibe_llms.invocables.shipped.shell.ensemble import ShellEnsemble
from vibe_llms.invocables.shipped.shell.settings import ShellSettings

async def main():
    shell = ShellEnsemble(ShellSettings(working_directory=Path({str(tmp_path)!r})))
    await shell.connect()
    await shell.run_command("(setsid setsid sleep {mark} &); touch ready; sleep {mark}")

asyncio.run(main())
"""
    ours = subprocess.Popen([sys.executable, "-c", program], env={"PYTHONPATH": str(SOURCES)})
    for _ in range(1_200):
        if (tmp_path / "ready").exists() and len(find_marked(f"sleep {mark}")) >= 2:
            break
        time.sleep(0.05)
    assert find_marked(f"sleep {mark}")

    ours.kill()
    ours.wait()

    assert await_none(f"sleep {mark}") == []


@pytest.mark.slow
@pytest.mark.skipif(not is_linux, reason="environments can be read on Linux alone")
async def test_a_command_that_kills_its_watchdog_is_told_and_not_waited_for(
    tmp_path: Path, mark: str
) -> None:
    """It ends with it, and no call hangs."""
    command = f"setsid sleep {mark} & kill -9 $PPID; sleep {mark}; true"

    outcome = await run(tmp_path, command, seconds=30)

    assert outcome.is_error
    assert "supervisor was killed" in outcome.text
    assert await_none(f"sleep {mark}") == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"seconds": 0}, "seconds: It must be a number of seconds above 0, not 0."),
        ({"seconds": float("nan")}, "seconds: It must be a number of seconds above 0"),
        ({"output_bytes": "1"}, "output_bytes: It must be a whole number"),
        ({"variables": ["A B"]}, "variables: It must be a list of names of variables"),
        ({"directories": []}, "directories: It must be a list with at least one name"),
        ({"second": 1}, "Unknown setting; did you mean 'seconds'?"),
    ],
)
def test_a_wrong_setting_of_it_is_named(
    tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    """With its place and what is right there."""
    with pytest.raises(ConfigurationError) as caught:
        survey_ensembles()[0].factory(produce_ensemble_context("shell", tmp_path, **settings))

    assert words in str(caught.value)
