"""What is wrong in something that a person wrote, and where."""

from __future__ import annotations

from vibe_llms.foundation.attrs_classes import frozen


@frozen(kw_only=True)
class Finding:
    """One mistake in something a person wrote.

    Attributes:
        place: The file, or another word for where the text came from.
        line: Counted from 1; 0 where the text has no lines.
        column: Counted from 1; 0 where only the line is known.
        path: The way to the value there, as ``models[2].pattern``; empty where it is all of it.
        message: What is wrong, with the nearest right word where there is one.
    """

    place: str
    line: int = 0
    column: int = 0
    path: str = ""
    message: str

    def __str__(self) -> str:
        place = ":".join((self.place, *(f"{each}" for each in (self.line, self.column) if each)))
        return ": ".join(filter(None, (place, self.path, self.message)))
