"""That no tracked file contains the markers of an unresolved merge conflict."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
MARKER = re.compile(rb"^(?:<{7}|>{7}|\|{7})(?: .*)?\r?$", re.MULTILINE)


def test_no_file_has_conflict_markers() -> None:
    wrong = [path for path in survey_files() if has_marker((ROOT / path).read_bytes())]

    assert wrong == []


def test_markers_are_found() -> None:
    for sign in (b"<", b">", b"|"):
        assert has_marker(b"a\n" + sign * 7 + b" HEAD\nb\n")
        assert has_marker(sign * 7)
    assert not has_marker(b"Title\n=======\n>>>>>>> \n"[:16] + b"\n  <<<<<<< HEAD\n<<<<<<<<\n")


def has_marker(data: bytes) -> bool:
    return MARKER.search(data) is not None


def survey_files() -> list[str]:
    """Return the tracked files; links and files that are being deleted are left out."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, timeout=60
    ).stdout
    paths = [each.decode() for each in listed.split(b"\0") if each]
    return [each for each in paths if (ROOT / each).is_file()]
