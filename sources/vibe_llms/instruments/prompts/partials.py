"""Where the partials of a prompt come from: what was given, or files beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.encodings import explain_misencoding
from vibe_llms.foundation.files import read_beginning
from vibe_llms.foundation.suggestions import suggest

MAXIMUM_BYTES: Final = 1_000_000
"""What one file of a prompt may hold."""


class PartialProblem(Exception):
    """A partial cannot be had; the message says why."""


@frozen
class Partials:
    """The partials that a prompt may include.

    Attributes:
        given: Their texts, by name; they win over files.
        directory: Where files may be read; none where the prompt came from no file.
    """

    given: Mapping[str, str]
    directory: Path | None = None

    def read(self, name: str) -> tuple[str, str]:
        """Returns a partial's text and what it is called in errors.

        Raises:
            PartialProblem: There is none, or it must not be read.
        """
        if name in self.given:
            return self.given[name], name
        if self.directory is None:
            raise PartialProblem(f"Unknown partial {name!r}{suggest(name, self.given)}")
        path = self._find(name, self.directory.resolve())
        return read_source(path), str(self.directory / name)

    def _find(self, name: str, directory: Path) -> Path:
        pure = PurePosixPath(name)
        # Backslashes and colons lead out on Windows.
        if pure.is_absolute() or ".." in pure.parts or "\\" in name or ":" in name or "\0" in name:
            raise PartialProblem(
                f"{name!r} is not the name of a file below the prompt's directory."
            )
        # Followed to its end, for a link may lead out.
        path = (directory / pure).resolve()
        if not path.is_relative_to(directory):
            raise PartialProblem(f"{name!r} leads out of the prompt's directory.")
        if not path.is_file():
            beside = [each.name for each in sorted(directory.iterdir())[:1000]]
            hint = suggest(name, (*self.given, *beside))
            raise PartialProblem(f"Unknown partial {name!r} in {directory}{hint}")
        return path


def read_source(path: Path) -> str:
    """Reads a file of a prompt.

    Raises:
        PartialProblem: It cannot be read.
    """
    try:
        raw = read_beginning(path, MAXIMUM_BYTES + 1)
    except OSError as error:
        raise PartialProblem(f"Cannot read {path}: {error.strerror}.") from error
    if len(raw) > MAXIMUM_BYTES:
        raise PartialProblem(f"{path} is larger than {MAXIMUM_BYTES} bytes.")
    try:
        return raw.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise PartialProblem(explain_misencoding(raw, str(path))) from error
