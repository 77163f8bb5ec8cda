"""User settings of the ensemble ``io``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import attrs

from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.invocables.shipped.grants import DirectoryGrant, produce_grant
from vibe_llms.tables.annotations import Count
from vibe_llms.tables.reading import require

_CURRENT_DIRECTORY: Final = (".",)
_SYSTEM_DIRECTORIES: Final = tuple(map(Path, ("/proc", "/sys", "/dev")))


@frozen(kw_only=True)
class IoSettings:
    """Granted directories.

    Attributes:
        name: Name of the ensemble.
        directories: Directories that can be read, and written after an approval.
        read_only: Directories that can only be read.
        file_bytes: Maximum size of a file that is written, edited or searched.
        working_directory: Start of relative paths.

    Raises:
        ConfigurationError: The settings are invalid; the message lists all mistakes.
    """

    name: str = "io"
    directories: tuple[str, ...] = _CURRENT_DIRECTORY
    read_only: tuple[str, ...] = ()
    file_bytes: Count = 10_000_000
    working_directory: Path = attrs.field(factory=Path.cwd)

    def __attrs_post_init__(self) -> None:
        require(self, f"ensembles.{self.name}")

    def produce_grants(self) -> tuple[DirectoryGrant, ...]:
        """Return the grants, writable ones first.

        Raises:
            ConfigurationError: A directory must not be granted, such as the root directory.
        """
        findings: list[Finding] = []
        grants = []
        for field, is_writable in (("directories", True), ("read_only", False)):
            for text in getattr(self, field):
                grant = produce_grant(text, is_writable, self.working_directory)
                if problem := self._find_problem(grant.path):
                    place = f"ensembles.{self.name}.{field}"
                    findings.append(Finding(place=place, message=f"{text!r} {problem}"))
                grants.append(grant)
        if not grants and not findings:
            message = "No directory is granted; name one in 'directories' or 'read_only'."
            findings.append(Finding(place=f"ensembles.{self.name}", message=message))
        if findings:
            raise ConfigurationError(findings=tuple(findings))
        return tuple(grants)

    def _find_problem(self, path: Path) -> str:
        if path == Path("/"):
            return "is the whole machine; name specific directories."
        if any(path.is_relative_to(each) for each in _SYSTEM_DIRECTORIES):
            return "shows the memory of processes, including secrets; it cannot be granted."
        # Only for the default, because the current directory may be any directory.
        is_default = self.directories == _CURRENT_DIRECTORY and not self.read_only
        if is_default and path == Path(os.path.realpath(Path.home())):
            return (
                "is your home directory, with your keys; change into another directory, or "
                f"name it: directories = [{str(path)!r}] in [ensembles.{self.name}]."
            )
        return ""
