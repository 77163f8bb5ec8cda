"""Terminal of tmux, which draws the screen that tests read."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

import attrs
import tomli_w

from support.screens.command_line import VIBE, produce_environment

PATIENCE_SECONDS = 60.0


class Terminal:
    """tmux window with a shell command."""

    def __init__(self, home: Path, columns: int, rows: int, command: str) -> None:
        self._socket = f"vibe-{uuid.uuid4().hex[:8]}"
        environment = produce_environment(home, TERM="screen-256color", LANG="C.UTF-8")
        size = ["-x", str(columns), "-y", str(rows)]
        place = ["-c", str(home)]
        new = ["-f", "/dev/null", "new-session", "-d", *size, *place, command]
        self._tmux(*new, env=environment)

    def _tmux(self, *arguments: str, env: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            ["tmux", "-u", "-L", self._socket, *arguments],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout

    def type(self, text: str) -> None:
        """Type a text and Enter."""
        self._tmux("send-keys", "-l", text)
        self.press("Enter")

    def press(self, key: str) -> None:
        """Press one key, such as ``C-c``."""
        self._tmux("send-keys", key)

    def read(self) -> str:
        """Return the text of the window, including scrolled lines, without trailing blanks."""
        screen = self._tmux("capture-pane", "-p", "-S", "-")
        return "\n".join(line.rstrip() for line in screen.splitlines()).rstrip()

    def wait_for(self, pattern: str) -> str:
        """Wait until a pattern is shown; return the screen."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not re.search(pattern, screen := self.read(), re.DOTALL):
            assert time.monotonic() < end, f"{pattern!r} did not come:\n{screen}"
            time.sleep(0.05)
        return screen

    def is_alive(self) -> bool:
        """Return whether the program still runs."""
        return bool(self._tmux("list-panes").strip())

    def wait_until_closed(self) -> None:
        """Wait until the program has ended."""
        end = time.monotonic() + PATIENCE_SECONDS
        while self.is_alive():
            assert time.monotonic() < end, f"The program did not end:\n{self.read()}"
            time.sleep(0.05)

    def close(self) -> None:
        """End the terminal and its programs."""
        self._tmux("kill-server")


@attrs.frozen
class Terminals:
    """Opens terminals.

    Attributes:
        home: Home of the user in all terminals.
    """

    home: Path
    _opened: list[Terminal] = attrs.field(factory=list)

    def __call__(
        self,
        columns: int,
        rows: int,
        *arguments: str,
        settings: dict[str, Any] | None = None,
        afterwards: str = "",
    ) -> Terminal:
        """Run ``vibe`` in a terminal, in the user's home.

        Args:
            arguments: Arguments of ``vibe``.
            settings: The user's configuration.
            afterwards: Shell command to run then; Ctrl-C does not end it.
        """
        if settings is not None:
            configuration = self.home / ".config" / "vibe-llms" / "config.toml"
            configuration.parent.mkdir(parents=True, exist_ok=True)
            configuration.write_text(tomli_w.dumps(settings), encoding="utf-8")
        command = shlex.join([*VIBE, *arguments])
        if afterwards:
            command = f"trap : INT; {command}; {afterwards}"
        return self.open(columns, rows, command)

    def open(self, columns: int, rows: int, command: str) -> Terminal:
        """Run a shell command in a terminal."""
        terminal = Terminal(self.home, columns, rows, command)
        self._opened.append(terminal)
        return terminal

    def close(self) -> None:
        """Close all terminals."""
        for terminal in self._opened:
            terminal.close()
