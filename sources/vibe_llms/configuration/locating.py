"""Location of errors that are known only by the name of a setting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from vibe_llms.configuration.classes import Configuration, Layer, Setting
from vibe_llms.exceptions import ConfigurationError, Finding

_STRENGTHS = {layer: strength for strength, layer in enumerate(Layer)}


def locate_findings(
    configuration: Configuration, findings: Iterable[Finding]
) -> tuple[Finding, ...]:
    """Add file and line to findings about ``providers.NAME.SETTING`` and the like.

    Findings from elsewhere do not change, nor do those about a setting that is not set: a line of
    the shipped defaults would not help, as users cannot edit it.
    """
    return tuple(_locate(configuration, finding) for finding in findings)


@contextmanager
def locating(configuration: Configuration) -> Iterator[None]:
    """Add the location of settings to errors about them."""
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
    if setting.written:
        name = ".".join((*setting.written[:2], *name.split(".")[2:]))
    path = ".".join(filter(None, (name, finding.path)))
    return Finding(place=source.place, line=source.line, path=path, message=finding.message)


def _find_setting(configuration: Configuration, name: str) -> Setting | None:
    """Return a setting, or the nearest table around it, as written or shipped."""
    while name:
        found = [
            setting
            for known, setting in configuration.settings.items()
            if known == name or known.startswith(f"{name}.")
        ]
        if found:
            # The layer that wins is the one to edit; within it the first line.
            return max(found, key=lambda each: (_STRENGTHS[each.source.layer], -each.source.line))
        name = name.rpartition(".")[0]
    return None
