"""Counts of instructions by valgrind's cachegrind: on a busy machine, no other figure is stable."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence

_COUNTER = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
_COUNTED = re.compile(r"I +refs: +([\d,]+)")

HAS_VALGRIND = shutil.which("valgrind") is not None


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
