"""Watchdog process between this process and a child program; it leaves no orphans.

A watchdog holds one end of a pipe, its lifeline; this process holds the other. When this end
closes, because the work is done or this process was killed, the watchdog stops the program and
everything that the program has started. When the program ends by itself, the watchdog stops its
remaining children, too. The program has its own session and process group.

On Linux the watchdog becomes the parent of orphaned descendants (a "subreaper"), so that it also
finds processes that left the group on purpose, as daemons do; on other systems these escape. If the
watchdog itself is killed, Linux kills the program, but not the program's children; other systems
leave both.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

SIGNAL_STATUS: Final = 128
"""Status of a program that was ended by a signal, plus the signal's number."""

_PROGRAM: Final = """
import os, select, signal, sys, time
grace, lifeline, directory = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
command = sys.argv[4:]
prctl = None
if sys.platform == "linux":
    import ctypes
    prctl = ctypes.CDLL(None).prctl
    prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
end_signals = ("SIGINT", "SIGTERM", "SIGHUP")
for name in end_signals:
    signal.signal(getattr(signal, name), signal.SIG_IGN)
inbox, outbox = os.pipe()
os.set_blocking(inbox, False)
os.set_blocking(outbox, False)
signal.signal(signal.SIGCHLD, lambda *_: None)
signal.set_wakeup_fd(outbox)
me = os.getpid()

def become_program():
    os.setsid()
    if prctl:
        prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
        if os.getppid() != me:
            os._exit(1)
    for name in (*end_signals, "SIGCHLD", "SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    if directory >= 0:
        os.fchdir(directory)
    os.closerange(3, 65536)
    os.execvp(command[0], command)

pid = os.fork()
if pid == 0:
    try:
        become_program()
    except OSError as error:
        os.write(2, f"{command[0]} cannot be started: {error.strerror}\\n".encode())
    os._exit(1)
if directory >= 0:
    os.close(directory)
for descriptor in (0, 1):  # they are the program's
    os.close(descriptor)
status = None

def reap():
    global status
    while True:
        try:
            ended, wait_status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if not ended:
            return True
        if ended == pid:
            status = os.waitstatus_to_exitcode(wait_status)

def find_descendants():
    if not prctl:
        return []
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found, pending = [], [me]
    while pending:
        own_children = children.get(pending.pop(), [])
        found += own_children
        pending += own_children
    return found

def send(number):
    for kill, target in [(os.killpg, pid), *((os.kill, each) for each in find_descendants())]:
        try:
            kill(target, number)
        except OSError:
            pass

def empty(descriptor):
    try:
        while os.read(descriptor, 4096):
            pass
    except OSError:
        pass

def wait(seconds):
    until = time.monotonic() + seconds
    while reap() and time.monotonic() < until:
        select.select([inbox], [], [], 0.02)
        empty(inbox)

while status is None:
    ready = select.select([lifeline, inbox], [], [])[0]
    empty(inbox)
    reap()
    if lifeline in ready and not os.read(lifeline, 64):
        send(signal.SIGTERM)
        wait(grace)
        break
until = time.monotonic() + 3
while reap() or not prctl:  # without prctl, the rest of the group are not our children
    send(signal.SIGSTOP)  # so that none of them starts another process
    send(signal.SIGKILL)
    wait(0.05)
    if not reap() or time.monotonic() > until:
        break
os._exit(137 if status is None else status if status >= 0 else 128 - status)
"""


def compose_watchdog(
    command: Sequence[str],
    *,
    grace_seconds: float,
    lifeline: int,
    directory: int | None = None,
) -> tuple[str, ...]:
    """Return the command that starts a watchdog, which starts a program.

    The watchdog's exit status is that of the program, or :data:`SIGNAL_STATUS` plus the signal's
    number. Start it in a session of its own, so that this process handles interrupts at the
    terminal.

    Args:
        command: The program and its arguments.
        grace_seconds: Grace period of the program after the request to end.
        lifeline: The descriptor of the pipe's end that the watchdog inherits. The program alone
            uses the watchdog's standard input and output.
        directory: The inherited descriptor of the program's working directory; ``None`` for that of
            the watchdog.
    """
    # A descriptor, as a path may mean another directory when the program starts.
    where = -1 if directory is None else directory
    options = (str(grace_seconds), str(lifeline), str(where))
    # Isolated and without site: it starts faster, and cannot import files from the directory.
    return (sys.executable, "-I", "-S", "-c", _PROGRAM, *options, *command)
