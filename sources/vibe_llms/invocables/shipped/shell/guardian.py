"""The program that stands between us and a command, and sees to it that nothing of it is left.

It is given to a Python of its own as text. It holds the end of a pipe whose other end is ours:
when that closes, because the command is to end or because we were killed, it ends the command
and all that the command had started. On Linux it is made the parent of whatever loses its own
(a "subreaper"), so that it finds daemons in sessions of their own, too.
"""

from __future__ import annotations

from typing import Final

GUARDIAN: Final = """
import os, select, signal, sys, time
grace, directory, command = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
is_linux = sys.platform == "linux"
prctl = None
if is_linux:
    import ctypes
    prctl = ctypes.CDLL(None).prctl
    prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
for name in ("SIGINT", "SIGTERM", "SIGHUP"):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
inbox, outbox = os.pipe()
os.set_blocking(inbox, False)
os.set_blocking(outbox, False)
signal.signal(signal.SIGCHLD, lambda *_: None)
signal.set_wakeup_fd(outbox)
me = os.getpid()

def become_command():
    os.setsid()
    if prctl:
        prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
        if os.getppid() != me:
            os._exit(1)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGCHLD", "SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    os.fchdir(directory)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.closerange(3, 64)
    os.execv(command[0], command)

pid = os.fork()
if pid == 0:
    try:
        become_command()
    except BaseException as error:
        os.write(2, str(error).encode())
    os._exit(126)
os.close(directory)
code = None

def reap():
    global code
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if not ended:
            return True
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)

def find_descendants():
    if not is_linux:
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
    found, ahead = [], [me]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found

def send(number):
    for kill, target in [(os.killpg, pid), *((os.kill, each) for each in find_descendants())]:
        try:
            kill(target, number)
        except OSError:
            pass

def wait(seconds):
    until = time.monotonic() + seconds
    while reap() and time.monotonic() < until:
        select.select([inbox], [], [], 0.02)
        try:
            os.read(inbox, 4096)
        except OSError:
            pass

while code is None:
    ready = select.select([0, inbox], [], [])[0]
    if inbox in ready:
        try:
            os.read(inbox, 4096)
        except OSError:
            pass
    reap()
    if 0 in ready and not os.read(0, 64):
        send(signal.SIGTERM)
        wait(grace)
        break
until = time.monotonic() + 3
while True:
    send(signal.SIGSTOP)  # so that nobody begins another meanwhile
    send(signal.SIGKILL)
    wait(0.05)
    if not reap() or time.monotonic() > until:
        break
os._exit(137 if code is None else code if code >= 0 else 128 - code)
"""
