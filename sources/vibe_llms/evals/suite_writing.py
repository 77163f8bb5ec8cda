"""Add cases to the files of suites."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from vibe_llms.evals.suite_reading import SUITE_BYTES, parse_suite
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.files import read_regular, replace_file
from vibe_llms.foundation.json_types import escape_surrogates

_HEAD = """# Run it with `vibe eval {name}`.

[[subjects]]
{subject}

[[judges]]
{judge}
"""

_JUDGES: Mapping[str, str] = {
    "model": 'name = "as-recorded"\nkind = "model"\n'
    'question = "Does the response say the same as the expected one, in other words perhaps?"',
    "task": 'name = "goal"\nkind = "goal"',
}
"""Judges of a new suite, by the kind of its subject."""


def add_run(suite: Path, name: str, run: Path, *, expected: str, kind: str, subject: str) -> None:
    """Add a kept run as a case to a suite; write a new suite if the file is missing.

    Args:
        suite: File of the suite.
        name: Name of the case.
        run: Folder of the kept run.
        expected: Recorded answer; empty if there is none.
        kind: Kind of the subject of a new suite: ``model`` or ``task``.
        subject: Model or task of a new suite.

    Raises:
        RequestError: The suite has a case of this name.
        ConfigurationError: The suite has mistakes, or would have some with the case; it stays.
        OSError: The file cannot be written.
    """
    folder = suite.absolute().parent
    named = f"name = {write_string(name)}"
    if suite.exists():
        known = read_regular(str(suite), SUITE_BYTES).decode("utf-8-sig", "surrogateescape")
        text = known.rstrip("\n") + "\n"
        if named in text.splitlines():
            raise RequestError(
                path=str(suite), detail=f"{suite} already has a case {name!r}.", remedy="Remove it."
            )
    else:
        if kind == "task":
            subject = Path(os.path.relpath(subject, folder)).as_posix()
        line = f"{kind} = {write_string(subject)}"
        place = " ".join(escape_surrogates(suite.name).split())
        text = _HEAD.format(name=place, subject=line, judge=_JUDGES[kind])
    path = Path(os.path.relpath(run, folder)).as_posix()
    text += f"\n[[cases]]\n{named}\nrun = {write_string(path)}\n"
    if expected.strip():
        text += f"expected = {write_string(expected)}\n"
    raw = text.encode("utf-8", "surrogateescape")
    parse_suite(raw, suite)  # cases = [...] cannot be extended, and judges may need other values
    replace_file(suite, raw)


def write_string(text: str) -> str:
    """Return a text as a string in TOML."""
    pieces = []
    for letter in escape_surrogates(text):
        if letter in '"\\':
            pieces.append(f"\\{letter}")
        elif letter == "\n":
            pieces.append("\\n")
        elif ord(letter) < 32 or ord(letter) == 127:
            pieces.append(f"\\u{ord(letter):04x}")
        else:
            pieces.append(letter)
    return f'"{"".join(pieces)}"'
