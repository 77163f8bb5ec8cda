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
        name: The short hash and the subject of its commit.
        data: The file's content.
    """

    name: str
    data: bytes


def read_revisions(file: Path, between: str) -> list[Revision]:
    """Return the file's content at a revision, and at each later revision that changed the file.

    Args:
        file: A file in the work tree of a repository; it may have been deleted.
        between: ``GOOD..BAD``, in git's syntax; ``BAD`` is ``HEAD`` if it is omitted.

    Raises:
        RequestError: Git is missing, or does not know a revision or the file.
    """
    good, dots, bad = between.partition("..")
    if not dots or not good or bad.startswith("."):
        raise _refuse(f"Invalid range of revisions {between!r}.", "Write GOOD..BAD.")
    log = _run_git(file, "log", "-1", "--format=%h %s", "--end-of-options", good, "--")
    later = ("--reverse", "--format=%h %s", "--end-of-options", f"{good}..{bad or 'HEAD'}")
    log += _run_git(file, "log", *later, "--", file.name)
    revisions = []
    for name in log.decode("utf-8", "replace").splitlines():
        commit = name.split()[0]
        data = _run_git(file, "show", "--end-of-options", f"{commit}:./{file.name}")
        revisions.append(Revision(name, data))
    return revisions


def _run_git(file: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(file.parent), *arguments]
    try:
        result = run_program(command, seconds=_SECONDS)
    except OSError as error:
        raise _refuse(f"Cannot start git: {error}.", "Install git.") from error
    if failure := result.explain():
        remedy = "Name revisions and a file in its repository."
        raise _refuse(f"git {arguments[0]}: {failure}.", remedy)
    return result.output


def _refuse(detail: str, remedy: str) -> RequestError:
    return RequestError(path="revisions", detail=detail, remedy=remedy, stage=Stage.EXECUTE)
