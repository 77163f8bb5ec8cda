"""Programs that we start end, within their bounds, with all that they have started."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from vibe_llms.processes import finished_programs
from vibe_llms.processes.finished_programs import FinishedProgram, run_program
from vibe_llms.processes.outputs import OutputLog
from vibe_llms.processes.programs import Program
from vibe_llms.processes.watchdog import SIGNAL_STATUS

is_linux = sys.platform == "linux"


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code, *arguments]


def await_gone(path: Path) -> bool:
    """Tells whether the process whose number is in a file ends within a minute."""
    process = int(path.read_text())
    for _ in range(3_000):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def await_file(path: Path) -> None:
    for _ in range(3_000):
        if path.exists() and path.read_text():
            return
        time.sleep(0.02)
    raise AssertionError(f"{path} does not appear")


STAYING = (
    "import os, subprocess, sys, time\n"
    "child = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
    "open(sys.argv[1], 'w').write(str(child.pid))\n"
    "time.sleep(60)\n"
)


def test_a_program_is_run_to_its_end_and_says_how_it_was() -> None:
    """Its status, and what it wrote to either stream."""
    code = "import sys; print('out'); print('first', file=sys.stderr); sys.exit('second')"

    ended = run_program(python(code))

    assert (ended.status, ended.output, ended.errors) == (1, b"out\n", b"first\nsecond\n")
    assert ended.explain() == "second"


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        (FinishedProgram(status=0, output=b"", errors=b"a warning"), ""),
        (
            FinishedProgram(status=2, output=b"", errors=b"ERROR: no such thing\nnotice: x\n"),
            "no such thing",
        ),
        (FinishedProgram(status=2, output=b"", errors=b""), "it ended with status 2"),
        (FinishedProgram(status=0, output=b"", errors=b"x", fault="it was slow"), "it was slow"),
    ],
)
def test_a_failure_is_explained_by_what_the_program_said_last(
    ended: FinishedProgram, reason: str
) -> None:
    """Where it marks a line as an error, by that; where it says nothing, by its status."""
    assert ended.explain() == reason


def test_a_program_that_is_not_there_is_told_of() -> None:
    """In words, as any other failure."""
    assert run_program(["/no/such/program"]).explain() == (
        "/no/such/program cannot be started: No such file or directory"
    )


@pytest.mark.slow
def test_a_program_that_takes_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    """After its time, also what has left its session."""
    mark = tmp_path / "child"

    ended = run_program(python(STAYING, str(mark)), seconds=1)

    assert ended.explain() == "it did not end within 1 seconds"
    assert not is_linux or await_gone(mark)


def test_a_program_that_writes_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it wrote until then is kept, and no more."""
    monkeypatch.setattr(finished_programs, "OUTPUT_BYTES", 100_000)

    ended = run_program(python("while True: print('x' * 1000)"))

    assert ended.explain() == "it wrote more than 100,000 bytes"
    assert len(ended.output) <= 100_000


def test_what_watches_a_program_can_end_it(tmp_path: Path) -> None:
    """By what it raises, as an interrupt does; nothing of the program is left."""
    mark = tmp_path / "child"

    def watch() -> None:
        if mark.exists() and mark.read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_program(python(STAYING, str(mark)), watch=watch)

    assert not is_linux or await_gone(mark)


def test_nothing_of_a_program_outlives_us(tmp_path: Path) -> None:
    """Not even where we are killed."""
    mark = tmp_path / "child"
    program = python(STAYING, str(mark))
    code = f"from vibe_llms.processes.finished_programs import run_program; run_program({program})"
    ours = subprocess.Popen([sys.executable, "-c", code])
    await_file(mark)

    ours.kill()
    ours.wait()

    assert not is_linux or await_gone(mark)


async def test_a_program_is_spoken_with_over_its_streams() -> None:
    """It reads what is written, and ends when its input does."""
    code = "import sys\nfor line in sys.stdin: print(line.upper(), end='', flush=True)"
    program = Program(python(code), grace_seconds=60, takes_input=True, errors_apart=True)
    inbox, outbox = await program.open_input(), await program.open_output()
    try:
        inbox.write(b"words\n")
        assert await outbox.readline() == b"WORDS\n"
        inbox.close()
        assert await program.wait(60)
    finally:
        await program.end(3)
        program.close()

    assert program.status == 0


async def test_who_cancels_the_end_of_a_program_waits_for_it() -> None:
    """So that nothing is left when the cancellation goes on."""
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    program = Program(python(code), grace_seconds=0.3)
    output = await program.open_output()
    await output.readline()
    ending = asyncio.ensure_future(program.end(5))
    for _ in range(3):
        await asyncio.sleep(0.01)
        ending.cancel()

    with pytest.raises(asyncio.CancelledError):
        await ending
    program.close()

    assert program.status == SIGNAL_STATUS + 9


async def test_what_a_program_says_at_its_end_keeps_it_from_nothing() -> None:
    """It is let go: a full pipe would keep it from ending by itself."""
    code = (
        "import os, signal, time\n"
        "def leave(*_): os.write(1, b'x' * 1_000_000); os._exit(0)\n"
        "signal.signal(signal.SIGTERM, leave); os.write(1, b'ready\\n'); time.sleep(60)"
    )
    program = Program(python(code), grace_seconds=60)
    output = await program.open_output()
    await output.readline()

    await program.end(5, unread=output)
    program.close()

    assert program.status == 0


def test_what_a_program_says_is_kept_in_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file begins anew when it is full; the last lines are shown, cut and without secrets."""
    monkeypatch.setattr("vibe_llms.processes.outputs.LOG_BYTES", 1_000)
    log = OutputLog(tmp_path / "deep" / "log", lambda data: data.replace(b"key-1", b"***"))
    for number in range(100):
        log.write(f"line {number} key".encode())
        log.write(b"-1\n")
    log.write(b"x" * 5_000)

    *lines, last = log.tail()
    log.close()

    assert (tmp_path / "deep" / "log").stat().st_size <= 1_000
    assert lines[-1] == "line 99 ***"
    assert last == "x" * 300
    assert b"key-1" not in (tmp_path / "deep" / "log").read_bytes()


def test_a_log_without_a_place_keeps_the_last_lines(tmp_path: Path) -> None:
    """A program never waits for a disk."""
    (tmp_path / "file").touch()
    log = OutputLog(tmp_path / "file" / "log")

    log.write(b"one\ntwo")

    assert log.tail() == ("one", "two")


def test_a_log_is_written_by_one_thread_and_read_by_another() -> None:
    """No line is doubled or lost."""
    log = OutputLog(None)
    writing = threading.Thread(target=lambda: [log.write(b"word\n") for _ in range(2_000)])
    writing.start()
    while writing.is_alive():
        assert set(log.tail()) <= {"word"}
    writing.join()
