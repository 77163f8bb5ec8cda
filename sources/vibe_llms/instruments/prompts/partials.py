"""Partials of a prompt: texts from the caller, or files next to the prompt's file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.encodings import explain_misencoding
from vibe_llms.foundation.files import read_beginning, resolve_links
from vibe_llms.foundation.suggestions import suggest

MAXIMUM_BYTES: Final = 1_000_000
"""Maximum size of one file of a prompt."""


class PartialProblem(Exception):
    """A partial is unavailable; the message states the reason."""


@frozen
class Partials:
    """The partials that a prompt may include.

    Attributes:
        texts: Texts by name; they take precedence over files.
        directory: The directory of readable files; ``None`` if the prompt is not from a file.
    """

    texts: Mapping[str, str]
    directory: Path | None = None

    def read(self, name: str) -> tuple[str, str]:
        """Return a partial's text and its name in errors.

        Raises:
            PartialProblem: It does not exist, or must not be read.
        """
        if name in self.texts:
            return self.texts[name], name
        if self.directory is None:
            raise PartialProblem(f"Unknown partial {name!r}{suggest(name, self.texts)}")
        path = self._find(name, resolve_links(self.directory))
        shown = str(self.directory / name)
        return read_source(path, str(path)), shown

    def _find(self, name: str, directory: Path) -> Path:
        pure = PurePosixPath(name)
        # Backslashes and colons can leave the directory on Windows.
        if pure.is_absolute() or ".." in pure.parts or "\\" in name or ":" in name or "\0" in name:
            raise PartialProblem(
                f"{name!r} is not the name of a file below the prompt's directory."
            )
        # Resolved, because a symbolic link may lead out of the directory.
        path = resolve_links(directory / pure)
        if not path.is_relative_to(directory):
            raise PartialProblem(f"{name!r} leads out of the prompt's directory.")
        if not path.is_file():
            files = [path.name for path in sorted(directory.iterdir())[:1000]]
            suggestion = suggest(name, (*self.texts, *files))
            raise PartialProblem(f"Unknown partial {name!r} in {directory}{suggestion}")
        return path


def read_source(path: Path, shown: str = "The file") -> str:
    """Read a file of a prompt.

    Args:
        shown: The name of the file in errors.

    Raises:
        PartialProblem: It cannot be read.
    """
    try:
        raw = read_beginning(path, MAXIMUM_BYTES + 1)
    except OSError as error:
        raise PartialProblem(f"{shown} cannot be read: {error.strerror}.") from error
    if len(raw) > MAXIMUM_BYTES:
        raise PartialProblem(f"{shown} is larger than {MAXIMUM_BYTES:,} bytes.")
    try:
        return raw.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise PartialProblem(explain_misencoding(raw, shown, path=str(path))) from error
