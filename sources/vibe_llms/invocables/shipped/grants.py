"""Directories that a user grants, and path resolution that cannot leave them.

Comparing paths as texts would not be safe. A walk starts at the open directory of a grant and
opens one component after another, by descriptors. It reads symbolic links itself and follows them
in the same way, and ``..`` returns to the previous directory of the walk. So if another process
replaces a directory with a link during the walk, the target changes, but stays within the grants.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import attrs

from vibe_llms.exceptions import EnsembleError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.files import expand_home
from vibe_llms.invocables.refusals import Refusal

LINKS_LIMIT: Final = 40
"""Maximum number of links in one path, as in Linux."""

DEPTH_LIMIT: Final = 100
"""Maximum depth of a path in a grant; the walk keeps a descriptor open for each level."""

WALKING: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READING: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@frozen
class DirectoryGrant:
    """A directory that a user grants.

    Attributes:
        path: Its absolute path, without links.
        is_writable: True if its files may be written.
        alias: The absolute path as the user wrote it, perhaps through links.
    """

    path: Path
    is_writable: bool
    alias: Path


def produce_grant(text: str, is_writable: bool, working_directory: Path) -> DirectoryGrant:
    """Create a grant from a user's path; ``~`` is the home directory."""
    absolute = Path(os.path.normpath(working_directory / expand_home(text)))
    return DirectoryGrant(Path(os.path.realpath(absolute)), is_writable, alias=absolute)


@frozen(kw_only=True)
class GrantedPath:
    """Target of a walk.

    Attributes:
        directory: A descriptor of the directory that contains it, valid while the walk is open. It
            may be usable only as the base of relative paths.
        name: Its name in that directory, which was not a link; ``.`` for the directory itself.
        grant: The grant that contains it.
        shown: The path as a model may see it.
    """

    directory: int
    name: str
    grant: DirectoryGrant
    shown: str

    def inspect(self) -> os.stat_result | None:
        """Return the status of the target; ``None`` if it does not exist."""
        try:
            return os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            return None


class Grants:
    """The directories that one ensemble may use, open while it is connected.

    Args:
        name: The name of the ensemble, for errors.
        grants: The directories. Relative paths from a model start at the first.
    """

    def __init__(self, name: str, grants: Iterable[DirectoryGrant]) -> None:
        self.grants = tuple(grants)
        self._name = name
        self._lock = threading.Lock()
        self._roots: dict[DirectoryGrant, int] = {}
        self._identities: dict[tuple[int, int], DirectoryGrant] = {}

    def open(self) -> None:
        """Open the directories.

        Raises:
            EnsembleError: A directory cannot be opened; none stays open.
        """
        with self._lock:
            for grant in self.grants:
                try:
                    descriptor = os.open(grant.path, WALKING)
                except OSError as error:
                    self._close()
                    raise EnsembleError(
                        ensemble=self._name,
                        detail=f"Cannot open the directory {grant.path} of "
                        f"[ensembles.{self._name}]: {error.strerror}.",
                        remedy="Create it, or remove it from the setting.",
                    ) from error
                self._roots[grant] = descriptor
                status = os.fstat(descriptor)
                # By identity rather than path, because a walk may reach it from another grant.
                self._identities[status.st_dev, status.st_ino] = grant

    def close(self) -> None:
        """Close the directories; walks in progress have separate descriptors and continue."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        for descriptor in self._roots.values():
            os.close(descriptor)
        self._roots.clear()

    def duplicate(self, grant: DirectoryGrant) -> int:
        """Return a new descriptor of a grant's directory, which the caller closes."""
        with self._lock:
            if grant not in self._roots:
                raise Refusal("The files are no longer accessible: the ensemble is closed.")
            # A separate descriptor, so that the walk can continue when the ensemble is closed.
            return os.dup(self._roots[grant])

    def recognize(self, descriptor: int) -> DirectoryGrant | None:
        """Return the grant to whose directory itself a descriptor refers, if any."""
        status = os.fstat(descriptor)
        return self._identities.get((status.st_dev, status.st_ino))

    def describe(self) -> str:
        """Describe the granted directories for a model."""
        return ", ".join(
            f"{grant.path} ({'read and write' if grant.is_writable else 'read only'})"
            for grant in self.grants
        )

    @contextmanager
    def walk(self, path: str, *, creates: bool = False) -> Iterator[GrantedPath]:
        """Resolve a path, following links on the way and at its end.

        Args:
            path: The path as the model wrote it.
            creates: Create missing directories on the way, if the grant is writable.

        Raises:
            Refusal: The path leaves the grants, or a component on the way is not a directory.
        """
        resolver = _PathResolver(self, path, creates)
        try:
            yield resolver.walk()
        finally:
            resolver.close()


@frozen
class _Step:
    """An open directory on the way; the walk closes it."""

    descriptor: int
    name: str
    grant: DirectoryGrant


class _PathResolver:
    """One walk: the open directories on the way, and the remaining components."""

    def __init__(self, grants: Grants, path: str, creates: bool) -> None:
        self._grants = grants
        self._path = path
        self._creates = creates
        self._trail: list[_Step] = []
        self._remaining: list[str] = []
        self._links = 0

    def walk(self) -> GrantedPath:
        """Walk to the end."""
        _ensure_path(self._path)
        if self._path.startswith("/"):
            self._begin((), _split(self._path))
        else:
            self._begin(self._grants.grants[0].path.parts[1:], _split(self._path))
        while self._remaining:
            name = self._remaining.pop(0)
            if name == "..":
                self._go_back()
            elif self._remaining:
                self._enter(name)
            elif not self._follow(name):
                return self._arrive(name)
        return self._arrive(".")

    def close(self) -> None:
        """Close the opened directories."""
        while self._trail:
            os.close(self._trail.pop().descriptor)

    def _begin(self, real: Sequence[str], rest: Sequence[str]) -> None:
        """Enter the grant that contains a path.

        Args:
            real: The first components of the path, none of which is a link.
            rest: The following components, which may be links.
        """
        # Only before the first possible link; behind a link, the walk must resolve "..".
        while rest and rest[0] == "..":
            real, rest = real[:-1], rest[1:]
        parts = (*real, *rest)
        # The longest path takes precedence: a grant may contain another one with other rights.
        best: tuple[int, DirectoryGrant] | None = None
        for grant in self._grants.grants:
            # The model may know the directory by either path.
            for path in (grant.path, grant.alias):
                length = len(path.parts) - 1
                if parts[:length] == path.parts[1:] and (best is None or length > best[0]):
                    best = (length, grant)
        if best is None:
            raise Refusal(
                f"{show(self._path)} is outside of the granted directories: "
                f"{self._grants.describe()}."
            )
        length, grant = best
        self.close()
        self._trail.append(_Step(self._grants.duplicate(grant), "", grant))
        # The walk starts at the grant itself, so that directories above it are not read.
        self._remaining = list(parts[length:])

    def _enter(self, name: str) -> None:
        """Enter a directory, or follow a link."""
        here = self._trail[-1]
        if len(self._trail) > DEPTH_LIMIT:
            raise Refusal(f"{show(self._path)} is deeper than {DEPTH_LIMIT} directories.")
        try:
            descriptor = self._open(name, here)
        except OSError as error:
            # A link causes one of these two errors, depending on the operating system.
            if error.errno in (errno.ENOTDIR, errno.ELOOP) and self._follow(name):
                return
            is_file = error.errno == errno.ENOTDIR
            reason = "is not a directory on the way" if is_file else _describe_error(error)
            raise Refusal(f"{self._show(name)}: {reason}.") from error
        step = _Step(descriptor, name, here.grant)
        self._trail.append(step)
        grant = self._grants.recognize(descriptor)
        if grant is not None:  # a grant may contain another one, perhaps for reading only
            self._trail[-1] = attrs.evolve(step, grant=grant)

    def _open(self, name: str, here: _Step) -> int:
        try:
            return os.open(name, WALKING, dir_fd=here.descriptor)
        except FileNotFoundError:
            if not self._creates:
                raise
        if not here.grant.is_writable:
            raise Refusal(f"Cannot create {self._show(name)}: its directory is read-only.")
        with suppress(FileExistsError):  # another process may have created it
            os.mkdir(name, dir_fd=here.descriptor)
        return os.open(name, WALKING, dir_fd=here.descriptor)

    def _follow(self, name: str) -> bool:
        """Put the target of a link before the remaining components; return whether it is a link."""
        try:
            target = os.readlink(name, dir_fd=self._trail[-1].descriptor)
        except OSError as error:
            # The component is not a link, or is missing; the caller may want to create a missing
            # one.
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return False
            raise Refusal(f"{self._show(name)}: {_describe_error(error)}.") from error
        self._links += 1
        if self._links > LINKS_LIMIT:
            raise Refusal(f"{show(self._path)} leads through more than {LINKS_LIMIT} links.")
        # An absolute target starts at a grant again, like an absolute path from the model.
        if target.startswith("/"):
            self._begin((), (*_split(target), *self._remaining))
        else:
            self._remaining[:0] = _split(target)
        return True

    def _go_back(self) -> None:
        # To the previous directory of the walk, even if another process has moved the present one.
        if len(self._trail) > 1:
            os.close(self._trail.pop().descriptor)
        else:
            self._begin(self._trail[0].grant.path.parts[1:], ("..", *self._remaining))

    def _arrive(self, name: str) -> GrantedPath:
        here = self._trail[-1]
        shown = self._show(name)
        return GrantedPath(directory=here.descriptor, name=name, grant=here.grant, shown=shown)

    def _show(self, name: str) -> str:
        """Return a path for a model, relative if it is in the first grant."""
        first = self._trail[0].grant
        names = [step.name for step in self._trail[1:]]
        if name != ".":
            names.append(name)
        if first != self._grants.grants[0]:
            names.insert(0, str(first.path))
        return show("/".join(names) or ".")


def _ensure_path(path: str) -> None:
    if not path.strip():
        raise Refusal("The path is empty. '.' is the directory itself.")
    if "\0" in path:
        raise Refusal("A path cannot hold the character NUL.")
    try:
        size = len(path.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise Refusal(
            "The path contains an invalid character: half of a surrogate pair."
        ) from error
    if size > 4_096:
        raise Refusal("A path has at most 4096 bytes.")


def _split(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part not in ("", "."))


def _describe_error(error: OSError) -> str:
    words = {errno.ENOENT: "does not exist", errno.EACCES: "permission denied"}
    return words.get(error.errno or 0, error.strerror or type(error).__name__)


def show(path: str) -> str:
    """Escape a path so that it stays on one line and can be encoded.

    Bytes that are not UTF-8 are written as ``\\xff``.
    """
    # Names of files may contain any bytes; a line break could forge a line of the output.
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    text = text if text.isprintable() else json.dumps(text)
    return text if len(text) <= 500 else f"{text[:500]}…"
