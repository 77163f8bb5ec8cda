"""Findings: errors in something that a person wrote, with their places."""

from __future__ import annotations

from vibe_llms.foundation.attrs_classes import frozen


@frozen(kw_only=True)
class Finding:
    """One error in something that a person wrote.

    Attributes:
        place: The file, or another description of the text's origin.
        line: Counted from 1; 0 if the text has no lines.
        column: Counted from 1; 0 if only the line is known.
        path: The path of the value within the text, such as ``models[2].pattern``; empty for the
            whole text.
        message: The error, with the nearest valid name, if there is one.
    """

    place: str
    line: int = 0
    column: int = 0
    path: str = ""
    message: str

    def __str__(self) -> str:
        numbers = [str(number) for number in (self.line, self.column) if number]
        place = ":".join((self.place, *numbers))
        return ": ".join(filter(None, (place, self.path, self.message)))
