"""Installation of a plugin's package on first use, after consent, with the user's pip.

Each plugin's package has its own directory, with all dependencies. That directory is appended to
``sys.path``: installed packages are never shadowed, and its ``.pth`` files are never run.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_llms.configuration.redaction import redact_addresses
from vibe_llms.exceptions import ConfigurationError, DependencyError, Finding, TrustError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.plugins.availability import is_importable
from vibe_llms.processes.finished_programs import run_program

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from vibe_llms.configuration.classes import PluginEntry, Source
    from vibe_llms.plugins.specification.users import Consent

_PIP_OPTIONS = ("--no-input", "--disable-pip-version-check", "--quiet")


def ensure_installed(entry: PluginEntry, directory: Path, consent: Consent) -> None:
    """Make the module of a plugin with a package importable.

    Args:
        entry: Has a package.
        directory: The plugin's own directory for packages; created if needed.
        consent: Asked before anything is installed.

    Raises:
        ConfigurationError: The package is not a valid requirement.
        DependencyError: pip is missing or fails, or another version is installed.
        TrustError: The user does not consent.
    """
    requirement = read_requirement(entry.package, entry.source)
    own = [str(directory)]
    if directory.is_dir() and is_importable(entry.module, own) and _is_satisfied(requirement, own):
        _append_to_path(directory)
        return
    # If the plugin's directory is on the path already, a module found there may have the wrong
    # version: then install again.
    if str(directory) not in sys.path and is_importable(entry.module):
        if not _is_satisfied(requirement, sys.path):
            package = _redact(requirement)
            raise DependencyError(
                package=package,
                detail=f"The plugin {entry.name!r} needs {package}, but another version is "
                "installed.",
                remedy=f"Run: {write_command('install', '--upgrade', package)}",
            )
        return
    _install(entry, requirement, directory, consent)
    _append_to_path(directory)


def _redact(requirement: Requirement) -> str:
    """Return the requirement for display: without the password of an address."""
    return redact_addresses(str(requirement))


def read_requirement(package: str, source: Source) -> Requirement:
    """Parse a requirement. Raises ConfigurationError, which names the source."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(package)
    except InvalidRequirement as error:
        name = redact_addresses(package)
        message = f"{name!r} is not a requirement such as 'gemini-provider >= 1'."
        finding = Finding(place=source.place or str(source), line=source.line, message=message)
        raise ConfigurationError(findings=(finding,)) from error


def _is_satisfied(requirement: Requirement, directories: Sequence[str]) -> bool:
    """Return whether the installed version matches; one without metadata is accepted."""
    found = importlib.metadata.distributions(name=requirement.name, path=list(directories))
    first = next(iter(found), None)
    # An installed prerelease is accepted, as the user has chosen it.
    return first is None or requirement.specifier.contains(first.version, prereleases=True)


def _install(
    entry: PluginEntry, requirement: Requirement, directory: Path, consent: Consent
) -> None:
    name = _redact(requirement)
    question = (
        f"The plugin {entry.name!r} ({entry.source}) needs the package {name}. "
        f"Install it with pip into {directory}?"
    )
    command = write_command("install", "--target", str(directory), name)
    if not consent.ask(f"package:{name}", question):
        raise TrustError(
            subject=f"package:{name}",
            detail=f"The plugin {entry.name!r} needs {name}, but the installation was not "
            "confirmed.",
            remedy="Answer yes, set VIBE_LLMS_YES=1, or install it yourself.",
        )
    if importlib.util.find_spec("pip") is None:
        raise DependencyError(
            package=name,
            detail=f"The plugin {entry.name!r} needs {name}, but this Python has no pip.",
            remedy=f"Run: {command}",
        )
    pip = Pip(entry=entry, requirement=requirement, advice=f"To see more, run: {command}")
    # Next to the target: only within one file system is the rename atomic.
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".draft-") as draft:
        new, old = Path(draft, "new"), Path(draft, "old")
        pip.install(pip.plan(), new)
        # Moved away first: a rename cannot replace a directory that is not empty.
        if directory.exists():
            directory.rename(old)
        new.rename(directory)


@frozen(kw_only=True)
class Pip:
    """The pip of this Python, with the user's index and settings.

    Attributes:
        entry: The plugin, for errors.
        requirement: The package to install.
        advice: The remedy in errors.
    """

    entry: PluginEntry
    requirement: Requirement
    advice: str

    def plan(self) -> list[str]:
        """Ask pip for the missing packages, as exact requirements.

        ``pip install --target`` alone would download installed packages again.
        """
        report = json.loads(self.run("--dry-run", "--report", "-", "--", str(self.requirement)))
        found = [
            f"{item['metadata']['name']} @ {item['download_info']['url']}"
            if item["is_direct"]
            else f"{item['metadata']['name']}=={item['metadata']['version']}"
            for item in report["install"]
        ]
        if not found:
            raise self.produce_error("the package is installed, but has no such module")
        return found

    def install(self, packages: Sequence[str], target: Path) -> None:
        """Install exactly these packages; :meth:`plan` has listed their dependencies."""
        self.run("--no-deps", "--target", str(target), "--", *packages)

    def run(self, *arguments: str) -> str:
        """Run ``pip install`` and return its output."""
        result = run_program(
            [sys.executable, "-m", "pip", "install", *_PIP_OPTIONS, *arguments],
            # This variable may turn pip's own warnings into errors.
            environment={k: text for k, text in os.environ.items() if k != "PYTHONWARNINGS"},
        )
        if reason := result.explain():
            raise self.produce_error(reason)
        return result.output.decode("utf-8", "replace")

    def produce_error(self, reason: str) -> DependencyError:
        """Make the error for a failed installation."""
        return DependencyError(
            package=_redact(self.requirement),
            detail=f"pip could not install {_redact(self.requirement)} for the plugin "
            f"{self.entry.name!r}: {reason}.",
            remedy=self.advice,
        )


def _append_to_path(directory: Path) -> None:
    if str(directory) not in sys.path:
        sys.path.append(str(directory))
    # Python caches the content of directories, and would not see the new files.
    importlib.invalidate_caches()


def write_command(*arguments: str) -> str:
    """Return the command line that runs pip with these arguments."""
    return shlex.join(["python", "-m", "pip", *arguments])
