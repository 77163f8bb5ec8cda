"""Where processes make connections to: Python itself tells of each, before it is made."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_PROGRAM: Final = """
import os, sys

sys.modules["uvloop"] = None  # whose connections Python does not hear of
_PATH = os.environ["WATCHED_SOCKETS"]


def _hear(event, arguments):
    if event in ("socket.connect", "socket.sendto"):
        line = f"{os.getpid()} {arguments[1]!r}\\n".encode()
        descriptor = os.open(_PATH, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, line)
        os.close(descriptor)


sys.addaudithook(_hear)
"""


def watch_sockets(folder: Path) -> dict[str, str]:
    """Return the variables under which programs of Python write down where they connect to."""
    (folder / "sitecustomize.py").write_text(_PROGRAM, encoding="utf-8")
    return {"PYTHONPATH": str(folder), "WATCHED_SOCKETS": str(folder / "connected")}


def read_ports(folder: Path) -> dict[int, set[int]]:
    """Return the ports of this machine to which each process has made connections.

    Raises:
        AssertionError: One has made one to somewhere else.
    """
    ports: dict[int, set[int]] = {}
    for line in (folder / "connected").read_text(encoding="utf-8").splitlines():
        who, _, where = line.partition(" ")
        found = re.match(r"\('(127\.0\.0\.1|::1)', (\d+)", where)
        assert found, f"{who} connected to {where}"
        ports.setdefault(int(who), set()).add(int(found[2]))
    return ports
