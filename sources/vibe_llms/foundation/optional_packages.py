"""The command that brings an optional package, for remedies: it runs as it is printed.

It names the packages themselves, as this installation's own metadata have them, and the Python that
lacks them. So it is right wherever this package came from: a checkout, a wheel, an index.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from vibe_llms.exceptions import DependencyError

_DISTRIBUTION: Final = "vibe-llms"


def advise_extra(extra: str, *packages: str) -> str:
    """Ends an error about a missing package: how what belongs to an extra of ours is installed.

    Args:
        extra: Its name, as in ``local``.
        packages: What it brings, where the metadata cannot be read.
    """
    return advise_packages(*(_read_extra(extra) or packages))


@contextmanager
def needing(extra: str, package: str, what: str) -> Iterator[None]:
    """Explains an import that fails within the block.

    Args:
        extra: Which of ours brings the package.
        what: What needs it, as ``Counting tokens exactly``.

    Raises:
        DependencyError: The package is not installed.
    """
    try:
        yield
    except ImportError as error:
        raise DependencyError(
            package=package,
            detail=f"{what} needs {package}, which is not installed.",
            remedy=advise_extra(extra, package),
        ) from error


def advise_packages(*requirements: str) -> str:
    """Ends an error about a missing package: how it is installed."""
    return f"Install it: {compose_command(*requirements)}"


def compose_command(*requirements: str) -> str:
    """Returns the command that installs packages into the Python that runs this."""
    import shutil
    from importlib import util

    quoted = " ".join(f'"{requirement}"' for requirement in requirements)
    # Environments that uv has made come without pip.
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
        # Taken out of what is shown: it says when the package belongs to the extra.
        marker, requirement.marker = requirement.marker, None
        # Not what is always installed: that has a marker which holds without the extra, too.
        if marker and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""}):
            found.append(str(requirement))
    return found
