"""Paths of notes as models and people write them, and the keys of the store behind them.

========================  ======================================  =========================
scope                     path                                    key
========================  ======================================  =========================
the user                  ``tea.md``, ``customers/acme.md``       ``own/user/tea.md``
the project               ``project/plan.md``                     ``own/projects/P/plan.md``
another project           ``projects/P/plan.md``                  ``own/projects/P/plan.md``
a tag                     ``tags/cooking/rice.md``                ``own/tags/cooking/rice.md``
========================  ======================================  =========================

Notes of the user of this machine begin with ``own``, those of a daemon's client with ``@`` and the
client's name.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from vibe_llms.configuration.paths import find_project_folder
from vibe_llms.conversations.notes.interfaces import ensure_key
from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.attrs_classes import frozen

if TYPE_CHECKING:
    from vibe_llms.configuration.classes import Configuration

_OWN: Final = "own"
_SUFFIX: Final = ".md"
_NAME_LENGTH: Final = 100
_SCOPES: Final = ("project", "projects", "tags")
_SAFE: Final = re.compile(r"[^\w.-]+")


@frozen(kw_only=True)
class NotePaths:
    """Translation of paths to keys, for one user and one project.

    Attributes:
        owner: The user, as a daemon knows it; empty for the user of this machine.
        project: Name of the project.
        is_whole: True if the notes of other projects are accessible, too.
    """

    owner: str = ""
    project: str
    is_whole: bool = False

    @property
    def root(self) -> str:
        """Beginning of the keys of all notes of the user."""
        return f"{_name_owner(self.owner)}/"

    @property
    def scopes(self) -> tuple[str, ...]:
        """Beginnings of the keys of all accessible notes."""
        names = ("user", "projects" if self.is_whole else f"projects/{self.project}", "tags")
        return tuple(f"{self.root}{name}/" for name in names)

    def locate(self, path: str) -> str:
        """Return the key of a note; a name without a suffix gets ``.md``.

        Raises:
            StoreError: The path is invalid, or names a folder.
        """
        parts = _split(path)
        if not _is_note(parts):
            raise StoreError(
                detail=f"{path!r} is not the name of a note.",
                remedy="Use NAME.md, project/NAME.md or tags/TAG/NAME.md.",
            )
        if "." not in parts[-1]:
            parts[-1] += _SUFFIX
        return ensure_key(self._join(parts), path)

    def is_note(self, path: str) -> bool:
        """Return whether a path can name a note, rather than only a folder."""
        return _is_note(_split(path))

    def locate_folders(self, path: str) -> tuple[str, ...]:
        """Return the beginnings of the keys of all notes in a folder, and below.

        Raises:
            StoreError: The path is invalid.
        """
        parts = _split(path)
        return (f"{ensure_key(self._join(parts), path)}/",) if parts else self.scopes

    def is_scope(self, path: str) -> bool:
        """Return whether a path names all notes of a kind, rather than a folder or a note."""
        return "/".join(_split(path)) in ("", *_SCOPES)

    def normalize(self, path: str) -> str:
        """Return the path of a note in listings. Raises StoreError as :meth:`locate`."""
        return self.name(self.locate(path))

    def name(self, key: str) -> str:
        """Return the path of a note."""
        scope, _, rest = key.removeprefix(self.root).partition("/")
        if scope == "user":
            return rest
        if scope == "projects" and rest.startswith(f"{self.project}/"):
            return f"project/{rest.removeprefix(f'{self.project}/')}"
        return f"{scope}/{rest}"

    def is_named(self, key: str) -> bool:
        """Return whether a note can be reached by its path."""
        try:
            return self.locate(self.name(key)) == key
        except StoreError:
            return False

    def _join(self, parts: list[str]) -> str:
        match parts:
            case ["project", *rest]:
                names = ["projects", self.project, *rest]
            case ["projects"] if not self.is_whole:
                names = ["projects", self.project]
            case ["projects", name, *_] if not self.is_whole and name != self.project:
                raise StoreError(
                    detail=f"The notes of the project {name!r} are not accessible here.",
                    remedy="Use project/NAME.md for the notes of this project.",
                )
            case ["projects" | "tags", *_]:
                names = parts
            case _:
                names = ["user", *parts]
        return f"{self.root}{'/'.join(names)}"


def _is_note(parts: list[str]) -> bool:
    match parts:
        case [] | ["project"] | ["projects" | "tags"] | ["projects" | "tags", _]:
            return False
    return True


def _split(path: str) -> list[str]:
    parts = [part for part in path.strip().split("/") if part not in ("", ".")]
    if parts and path.strip().startswith("/"):
        raise StoreError(
            detail=f"Invalid name of a note {path!r}: it begins with a slash.",
            remedy="Use a relative path, such as tea.md.",
        )
    return parts


def _name_owner(owner: str) -> str:
    """Return the first part of the keys of an owner; different owners have different ones."""
    if not owner:
        return _OWN
    name = quote(owner, safe="", errors="backslashreplace")
    # File systems may not tell capital letters apart, and limit the length of names.
    if len(name) > _NAME_LENGTH or name != name.lower():
        name = f"{name[:_NAME_LENGTH].lower()}={_digest(owner)}"
    return f"@{name}"


def name_project(configuration: Configuration) -> str:
    """Return the name of the current project: its folder's name, and a digest of its path."""
    folder = find_project_folder(configuration)
    name = _SAFE.sub("-", folder.name).strip(".-")[:40]
    return f"{name or 'project'}-{_digest(str(folder))}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:8]
