"""What an authorization server has granted, in a file that nobody else can read."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs

from vibe_llms.files import replace_file
from vibe_llms.secrets import Settings

_logger = logging.getLogger(__name__)

_VERSION: Final = 1
_LIMIT_BYTES: Final = 1_000_000
_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_BINARY: Final = getattr(os, "O_BINARY", 0)


@attrs.frozen
class GrantFile:
    """One file for one server and one client: what was granted to another is never sent to it.

    Attributes:
        directory: Made when it is needed, for the user alone.
        server: The address of the server.
        client_id: Of the client that was registered by hand, if any.
    """

    directory: Path
    server: str
    client_id: str = ""

    @property
    def path(self) -> Path:
        """Where it is: a name that tells nothing."""
        text = json.dumps([self.server, self.client_id])
        return self.directory / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"

    def load(self) -> Mapping[str, Any]:
        """Returns what is kept, as a mapping that prints its keys alone; empty where nothing is.

        A file that does not read as ours counts as none: what it held can be had again.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | _NO_FOLLOW | _BINARY)
        except OSError:
            return Settings({})
        with os.fdopen(descriptor, "rb") as file:
            if os.name != "nt" and os.fstat(descriptor).st_mode & 0o077:
                os.fchmod(descriptor, 0o600)
                _logger.warning("%s could be read by others; it cannot any more.", self.path)
            data = file.read(_LIMIT_BYTES)
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict) or document.get("version") != _VERSION:
            _logger.warning("%s is not read: it holds no grant.", self.path)
            return Settings({})
        if document.get("server") != self.server:
            return Settings({})
        return Settings(document)

    def save(self, values: Mapping[str, Any]) -> None:
        """Writes the file anew, all of it or nothing.

        Raises:
            OSError: It cannot be written.
        """
        document = {"version": _VERSION, "server": self.server, **values}
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(self.path, json.dumps(document).encode(), mode=0o600)

    def remove(self) -> None:
        """Forgets what was granted."""
        with suppress(FileNotFoundError):
            self.path.unlink()
