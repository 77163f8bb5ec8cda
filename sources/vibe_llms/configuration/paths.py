"""Paths of the files and directories of a user and of a project."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vibe_llms.configuration.classes import Configuration

APPLICATION = "vibe-llms"
FILE_VARIABLE = "VIBE_LLMS_CONFIG"
"""The environment variable for another path of the user's file."""

PROJECT_FOLDER = ".vibe-llms"
FILE_NAME = "config.toml"

# The XDG Base Directory Specification 0.8, for all systems but Windows and Apple's.
_FREEDESKTOP = {
    "config": ("XDG_CONFIG_HOME", ".config"),
    "data": ("XDG_DATA_HOME", ".local/share"),
    "cache": ("XDG_CACHE_HOME", ".cache"),
}


def access_user_directory(kind: str, environment: Mapping[str, str]) -> Path:
    """Return the user's directory of this application, which may not exist.

    Args:
        kind: ``config``, ``data`` or ``cache``.
        environment: The variables that set it, on systems that have such variables.
    """
    if sys.platform in ("win32", "darwin", "android", "ios"):
        import platformdirs

        path: Path = getattr(platformdirs, f"user_{kind}_path")(APPLICATION, appauthor=False)
        return path
    # The same result as that of platformdirs, in a tenth of the time, and from this environment.
    variable, folder = _FREEDESKTOP[kind]
    directory = environment.get(variable, "").strip()
    return (Path(directory) if directory else access_home(environment) / folder) / APPLICATION


def access_home(environment: Mapping[str, str]) -> Path:
    """Return the user's home directory."""
    home = environment.get("HOME")
    return Path(home) if home else Path.home()


def access_user_file(environment: Mapping[str, str], working_directory: Path) -> Path:
    """Return the path of the user's configuration file, which may not exist."""
    path = environment.get(FILE_VARIABLE)
    if path:
        return resolve_path(path, working_directory, environment)
    return access_user_directory("config", environment) / FILE_NAME


def find_project_file(working_directory: Path) -> Path | None:
    """Find the project file for a directory: in the directory itself, or its nearest parent."""
    for folder in (working_directory, *working_directory.parents):
        candidate = folder / PROJECT_FOLDER / FILE_NAME
        if candidate.is_file():
            return candidate
    return None


def find_project_folder(configuration: Configuration) -> Path:
    """Return the folder of the current project.

    It is that of the project's configuration file, else the nearest one with ``.git``, else the
    working directory.
    """
    for file in configuration.files:
        if file.layer == "project" and file.exists:
            return file.path.parent.parent
    here = Path.cwd()
    return next((each for each in (here, *here.parents) if (each / ".git").exists()), here)


def resolve_path(text: str, base: Path, environment: Mapping[str, str]) -> Path:
    """Make a user's path absolute: ``~`` is the home directory, others are relative to the base."""
    if text == "~" or text.startswith(("~/", "~\\")):
        return access_home(environment) / text[2:]
    return base / text
