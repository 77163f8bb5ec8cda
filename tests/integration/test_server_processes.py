"""The server as a program: signals, drain, and workers that die."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import psutil
import pytest

PROGRAM = Path(__file__).resolve().parents[1] / "support" / "network" / "served_program.py"


@attrs.define
class Running:
    """A program under way."""

    process: subprocess.Popen[str]
    port: int

    def ask(self, path: str = "/") -> int:
        """Returns the process that answered."""
        asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=50)
        with contextlib.closing(asked):
            asked.request("GET", path)
            return int(asked.getresponse().read())

    def ask_apart(self, path: str) -> tuple[threading.Thread, list[int]]:
        """Asks in a thread; returns it and where its answer will be, once it has begun."""
        answers: list[int] = []
        begun = threading.Event()

        def ask() -> None:
            asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=50)
            with contextlib.closing(asked), contextlib.suppress(http.client.HTTPException, OSError):
                asked.request("GET", path)
                answer = asked.getresponse()
                begun.set()
                answers.append(int(answer.read()))

        thread = threading.Thread(target=ask)
        thread.start()
        assert begun.wait(50)
        return thread, answers

    def survey_workers(self) -> set[int]:
        """Returns the processes that it has begun."""
        return {each.pid for each in psutil.Process(self.process.pid).children()}

    def read_line(self) -> str:
        """Returns the next line that it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> tuple[int, str]:
        """Waits for the end; returns the status and what was printed besides."""
        printed, _ = self.process.communicate(timeout=50)
        return self.process.returncode, printed


def wait_until(holds: Callable[[], bool]) -> None:
    """Waits until something holds that nothing tells of."""
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until, "it never was so"
        time.sleep(0.01)


@contextlib.contextmanager
def running(workers: int, *settings: str) -> Iterator[Running]:
    """Runs the program until it is ready, and ends it."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(workers), *settings],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        yield Running(process, int(url.rpartition(":")[2]))
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_is_under_way_is_answered_before_the_end(workers: int, number: int) -> None:
    """Nobody new is let in meanwhile."""
    with running(workers) as program:
        thread, answers = program.ask_apart("/1")
        program.process.send_signal(number)
        wait_until(lambda: not _is_open(program.port))
        thread.join()
        status, printed = program.end()

    assert len(answers) == 1
    assert (status, printed) == (0, "ended\n" * workers)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_second_signal_ends_at_once(workers: int) -> None:
    """What was under way is cut, and looks cut."""
    with running(workers) as program:
        thread, answers = program.ask_apart("/60")
        program.process.send_signal(signal.SIGINT)
        wait_until(lambda: not _is_open(program.port))
        began = time.monotonic()
        program.process.send_signal(signal.SIGINT)
        thread.join()

        assert program.end()[0] == 0
        assert not answers
        assert time.monotonic() - began < 45  # a minute would be the answer's


@pytest.mark.slow
def test_a_drain_has_an_end() -> None:
    """What takes longer than drain_seconds is cut."""
    with running(1, "drain_seconds=0.3") as program:
        thread, answers = program.ask_apart("/60")
        program.process.terminate()
        thread.join()

        assert program.end()[0] == 0
        assert not answers


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_hangup_reloads_in_every_process(workers: int) -> None:
    """And serves on."""
    with running(workers) as program:
        program.process.send_signal(signal.SIGHUP)

        assert [program.read_line() for _ in range(workers)] == ["reloaded"] * workers
        assert program.ask()


@pytest.mark.slow
def test_a_worker_that_is_killed_comes_back() -> None:
    """Whoever comes meanwhile waits and is answered."""
    with running(2) as program:
        before = program.survey_workers()
        assert len(before) == 2
        for worker in before:
            os.kill(worker, signal.SIGKILL)
            assert all(program.ask() for _ in range(20))
        wait_until(lambda: len(program.survey_workers() - before) == 2)
        assert {program.ask() for _ in range(50)} <= program.survey_workers()
        program.process.terminate()
        assert program.end()[0] == 0


def test_no_worker_outlives_the_supervisor() -> None:
    """Whatever ends it, and whatever they do."""
    with running(2) as program:
        workers = program.survey_workers()
        thread, _ = program.ask_apart("/60")
        program.process.kill()
        wait_until(lambda: not any(_lives(worker) for worker in workers))
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_who_cannot_begin_says_why(workers: str) -> None:
    """Instead of trying for ever."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), workers],
        env={**os.environ, "BREAKS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == "It cannot begin."[:-1]


@pytest.mark.slow
def test_a_port_that_is_taken_is_refused_by_several_workers_too() -> None:
    """They share it among themselves, not with another server."""
    with running(2) as program:
        done = subprocess.run(
            [sys.executable, str(PROGRAM), "2", f"port={program.port}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert done.returncode == 1
    assert f"Cannot listen on 127.0.0.1, port {program.port}" in done.stderr


def _is_open(port: int) -> bool:
    with contextlib.closing(socket.socket()) as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


def _lives(process: int) -> bool:
    return psutil.pid_exists(process) and psutil.Process(process).status() != psutil.STATUS_ZOMBIE
