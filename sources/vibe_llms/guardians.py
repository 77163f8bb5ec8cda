"""The small process between us and a program that we start, so that no orphan outlives us.

A guardian holds the end of a pipe, its lifeline, whose other end is ours. When ours closes,
because we are done or because we were killed, whatever killed us, the guardian stops the program
and all that the program had started. When the program ends by itself, what it leaves behind is
stopped, too. The program has a session and a group of processes of its own; one that leaves that
group on purpose, as a daemon does, escapes.

Should the guardian itself be killed, Linux kills the program, though not what that had started;
other systems leave both.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

SIGNAL_STATUS: Final = 128
"""A program that a signal ended is reported with this status, plus the signal's number."""

_PROGRAM: Final = """
import os, signal, subprocess, sys, threading
grace, lifeline, command = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
def follow():
    if sys.platform == "linux":
        import ctypes
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
posix = os.name == "posix"
options = {"start_new_session": True, "preexec_fn": follow} if posix else {}
if lifeline == 0:
    options["stdin"] = subprocess.DEVNULL
try:
    program = subprocess.Popen(command, **options)
except OSError as error:
    sys.exit(f"{command[0]} cannot be started: {error.strerror}")
if lifeline != 0:
    for descriptor in (0, 1):
        os.close(descriptor)
def send(name):
    try:
        if posix:
            os.killpg(program.pid, getattr(signal, name))
        else:
            program.terminate()
    except OSError:
        pass
def watch():
    while os.read(lifeline, 64):
        pass
    send("SIGTERM")
    try:
        program.wait(grace)
    except subprocess.TimeoutExpired:
        pass
    send("SIGKILL")
threading.Thread(target=watch, daemon=True).start()
status = program.wait()
send("SIGKILL")
os._exit(status if 0 <= status < 256 else 128 - status if -128 < status < 0 else 1)
"""


def compose_guardian(
    command: Sequence[str], *, grace_seconds: float, lifeline: int = 0
) -> tuple[str, ...]:
    """Returns the command that starts a guardian, which starts a program.

    The guardian ends with the status of the program, or with :data:`SIGNAL_STATUS` and more. It
    is to be started in a session of its own: an interrupt at the terminal is ours to handle.

    Args:
        command: The program and its arguments.
        grace_seconds: How long the program may take to end once it was asked to.
        lifeline: The descriptor of the pipe's end that the guardian inherits. With 0, its
            standard input, the program has none; with another, the program has the standard
            input and output of the guardian to itself.
    """
    return (
        *(sys.executable, "-I", "-S", "-c", _PROGRAM, str(grace_seconds), str(lifeline)),
        *command,
    )
