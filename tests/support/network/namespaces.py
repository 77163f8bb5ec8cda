"""Two network namespaces and a virtual cable between them, which can be cut."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import attrs

ADDRESSES = ("10.213.71.1", "10.213.71.2")
"""Addresses of both ends; they exist only in the namespaces."""


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@attrs.frozen
class Cable:
    """A cable between two namespaces.

    Attributes:
        ends: The names of the namespaces.
    """

    ends: tuple[str, str]

    def enter(self, end: int) -> list[str]:
        """Return the prefix of a command that runs in the namespace of an end."""
        return ["ip", "netns", "exec", self.ends[end]]

    def cut(self) -> None:
        """Drop all packets from now on, without an error for either end."""
        _ip("-n", self.ends[0], "link", "set", "cable", "down")

    def repair(self) -> None:
        """Let packets pass again."""
        _ip("-n", self.ends[0], "link", "set", "cable", "up")


@contextmanager
def open_cable() -> Iterator[Cable]:
    """Create the namespaces and the cable; remove them at the end."""
    cable = Cable((f"vibe-{os.getpid()}-a", f"vibe-{os.getpid()}-b"))
    made = []
    try:
        for name in cable.ends:
            _ip("netns", "add", name)
            made.append(name)
        first, second = cable.ends
        peer = ("peer", "name", "cable", "netns", second)
        _ip("-n", first, "link", "add", "cable", "type", "veth", *peer)
        for name, address in zip(cable.ends, ADDRESSES, strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            for link in ("lo", "cable"):
                _ip("-n", name, "link", "set", link, "up")
        yield cable
    finally:
        for name in made:
            _ip("netns", "delete", name)
