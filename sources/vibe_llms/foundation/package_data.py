"""Paths of the data that ship with the package, in a wheel, an editable install or a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def access_data_directory() -> Path:
    """Return the directory that has ``providers/``, ``schemas/`` and ``configuration/``.

    In a wheel the data are inside the package; in a checkout, which an editable install points to,
    they are at its top level.

    Raises:
        FileNotFoundError: The installation is damaged: neither place has the data.
    """
    for candidate in (_PACKAGE / "data", _PACKAGE.parents[1] / "data"):
        if (candidate / "schemas").is_dir():
            return candidate
    raise FileNotFoundError(
        f"The data of vibe-llms is missing beside {_PACKAGE}; reinstall the package."
    )


def access_data(*parts: str) -> Path:
    """Return the path of one shipped file or folder, such as ``("providers", "local")``."""
    return access_data_directory().joinpath(*parts)
