"""Missing optional packages: errors about them, with a command that installs them as printed.

The command names the packages of the extra, from the metadata of this installation, and the Python
that lacks them. So it works for any kind of installation: from a checkout, a wheel or an index.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from vibe_llms.exceptions import DependencyError

_DISTRIBUTION: Final = "vibe-llms"


def advise_extra(extra: str, *packages: str) -> str:
    """Return the remedy for a missing package: how to install the packages of an extra.

    Args:
        extra: Name of the extra, such as ``local``.
        packages: The missing packages, listed first. The only ones if the metadata cannot be read.
    """
    from packaging.requirements import Requirement

    # Sorting is stable, so the others stay in their order.
    requirements = sorted(
        _read_extra(extra), key=lambda text: Requirement(text).name not in packages
    )
    return advise_packages(*(requirements or packages))


@contextmanager
def needing(extra: str, package: str, feature: str) -> Iterator[None]:
    """Convert an import error within the block to an error with the command to install it.

    Args:
        extra: The extra that includes the package.
        feature: The feature that needs it, such as ``Counting tokens exactly``.

    Raises:
        DependencyError: The package is not installed.
    """
    try:
        yield
    except ImportError as error:
        raise DependencyError(
            package=package,
            detail=f"{feature} needs {package}, which is not installed.",
            remedy=advise_extra(extra, package),
        ) from error


def find_package(package: str) -> None:
    """Check that a package is installed, without importing it.

    Raises:
        ImportError: It is not installed.
    """
    from importlib import util

    if util.find_spec(package) is None:
        raise ImportError(package)


def advise_packages(*requirements: str) -> str:
    """Return the remedy for missing packages: how to install them."""
    return f"Install it: {compose_command(*requirements)}"


def compose_command(*requirements: str) -> str:
    """Return the command that installs packages into the running Python."""
    import shutil
    from importlib import util

    # Quoted, as requirements may contain ``>`` and blanks.
    quoted = " ".join(f'"{requirement}"' for requirement in requirements)
    # Environments made by uv do not have pip.
    if util.find_spec("pip") is None and shutil.which("uv") is not None:
        return f'uv pip install --python "{sys.executable}" {quoted}'
    return f'"{sys.executable}" -m pip install {quoted}'


def _read_extra(extra: str) -> list[str]:
    from importlib import metadata

    from packaging.requirements import Requirement

    try:
        texts = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []
    found = []
    for requirement in map(Requirement, texts):
        marker = requirement.marker
        # Packages that are always installed are skipped: their marker also holds without the extra.
        if marker and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""}):
            requirement.marker = None  # pip would not install it outside of the extra
            found.append(str(requirement))
    return found
