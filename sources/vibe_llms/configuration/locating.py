"""Add files and lines to errors that have only the name of a setting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from vibe_llms.configuration.classes import Configuration, Layer, Setting
from vibe_llms.exceptions import ConfigurationError, Finding

_PRECEDENCE = {layer: strength for strength, layer in enumerate(Layer)}


def locate_findings(
    configuration: Configuration, findings: Iterable[Finding]
) -> tuple[Finding, ...]:
    """Add file and line to findings about ``providers.NAME.SETTING`` and the like.

    Other findings do not change. Nor do findings about a setting that has its shipped default, as
    users cannot edit that file.
    """
    return tuple(_locate(configuration, finding) for finding in findings)


@contextmanager
def locating(configuration: Configuration) -> Iterator[None]:
    """Add the location of settings to errors that the block raises about them."""
    try:
        yield
    except ConfigurationError as error:
        error.findings = locate_findings(configuration, error.findings)
        raise


def _locate(configuration: Configuration, finding: Finding) -> Finding:
    setting = None if finding.line else _find_setting(configuration, finding.place)
    if setting is None or not setting.source.place or setting.source.layer is Layer.DEFAULTS:
        return finding
    name, source = finding.place, setting.source
    if setting.written_path:
        name = ".".join((*setting.written_path[:2], *name.split(".")[2:]))
    path = ".".join(filter(None, (name, finding.path)))
    return Finding(place=source.place, line=source.line, path=path, message=finding.message)


def _find_setting(configuration: Configuration, name: str) -> Setting | None:
    """Return a setting; if it is not set, one of the nearest table around it that has any."""
    while name:
        found = [
            setting
            for known, setting in configuration.settings.items()
            if known == name or known.startswith(f"{name}.")
        ]
        if found:
            # Of a table's settings, the first one of the strongest layer, which users would edit.
            return max(found, key=lambda each: (_PRECEDENCE[each.source.layer], -each.source.line))
        name = name.rpartition(".")[0]
    return None
