"""Versions of a file in a git repository, oldest first."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.processes.finished_programs import run_program

_SECONDS: Final = 30.0
"""Timeout of one git command, in seconds."""


class Revision(NamedTuple):
    """One version of a file.

    Attributes:
        name: Its short hash and commit subject.
        data: The file's content.
    """

    name: str
    data: bytes


def read_revisions(file: Path, between: str) -> list[Revision]:
    """Return the file's content at a revision, and at each later one that changed it.

    Args:
        file: In the work tree of a repository; it may have been deleted.
        between: ``GOOD..BAD``, in git's syntax; an omitted one is ``HEAD``.

    Raises:
        RequestError: Git is missing, or does not find one of them.
    """
    good, dots, bad = between.partition("..")
    if not dots or not good or bad.startswith("."):
        raise _refuse(f"Invalid range of revisions {between!r}.", "Write GOOD..BAD.")
    listed = _ask(file, "log", "-1", "--format=%h %s", "--end-of-options", good, "--")
    later = ("--reverse", "--format=%h %s", "--end-of-options", f"{good}..{bad or 'HEAD'}")
    listed += _ask(file, "log", *later, "--", file.name)
    names = listed.decode("utf-8", "replace").splitlines()
    return [
        Revision(name, _ask(file, "show", "--end-of-options", f"{name.split()[0]}:./{file.name}"))
        for name in names
    ]


def _ask(file: Path, *words: str) -> bytes:
    command = ["git", "-C", str(file.parent), *words]
    try:
        ended = run_program(command, seconds=_SECONDS)
    except OSError as error:
        raise _refuse(f"Cannot start git: {error}.", "Install git.") from error
    if why := ended.explain():
        raise _refuse(f"git {words[0]}: {why}.", "Name revisions and a file in its repository.")
    return ended.output


def _refuse(detail: str, remedy: str) -> RequestError:
    return RequestError(path="revisions", detail=detail, remedy=remedy, stage=Stage.EXECUTE)
