"""Counts of instructions by valgrind's cachegrind: on a busy machine, no other figure is stable."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_COUNTER = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
_COUNTED = re.compile(r"I +refs: +([\d,]+)")

HAS_VALGRIND = shutil.which("valgrind") is not None

_SUMMARY: Final = re.compile(r"^(?:summary|totals): (\d+)$", re.MULTILINE)


def count_instructions(
    command: Sequence[str], environment: Mapping[str, str], *, until: str = ""
) -> int | None:
    """Return the instructions of a process; ``None`` without valgrind.

    Args:
        until: Text in its standard error at which it is asked to end, for a daemon.
    """
    if not HAS_VALGRIND:
        return None
    with subprocess.Popen(
        (*_COUNTER, *command),
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        while until and until not in (line := process.stderr.readline()):
            if not line:
                raise RuntimeError(f"{command} ended early")
        if until:
            process.send_signal(signal.SIGINT)
        found = _COUNTED.search(process.stderr.read())
        assert found is not None
        return int(found[1].replace(",", ""))


def find_valgrind() -> bool:
    """Return whether instructions can be counted here."""
    return shutil.which("valgrind") is not None and shutil.which("vgdb") is not None


def wrap_command(command: tuple[str, ...], folder: Path) -> tuple[str, ...]:
    """Return a command that runs another one under callgrind; nothing is counted at first."""
    options = ("--tool=callgrind", "--instr-atstart=no", "-q", "--combine-dumps=no")
    return ("valgrind", *options, f"--callgrind-out-file={folder}/callgrind.%p", *command)


class InstructionCounter:
    """Counter of the instructions of one process that was started with :func:`wrap_command`.

    Args:
        pid: The process.
        folder: The folder of its output.
    """

    def __init__(self, pid: int, folder: Path) -> None:
        self._pid = pid
        self._folder = folder

    def start(self) -> None:
        """Begin to count from zero."""
        self._tell("instrumentation", "on")
        self._tell("zero")

    def stop(self) -> int:
        """Return how many instructions were executed since the start, and count no longer."""
        self._tell("dump")
        self._tell("instrumentation", "off")
        dumps = sorted(self._folder.glob(f"callgrind.{self._pid}.*"), key=_number)
        total = sum(map(int, _SUMMARY.findall(dumps[-1].read_text())[:1]))
        for dump in dumps[:-1]:
            dump.unlink()
        return total

    def _tell(self, *words: str) -> None:
        command = ["vgdb", f"--pid={self._pid}", *words]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


def _number(path: Path) -> int:
    return int(path.suffix.removeprefix("."))
