"""Where a mistake stands that somebody found who knows settings by their names alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from vibe_llms.configuration.classes import Configuration, Layer, Source
from vibe_llms.exceptions import ConfigurationError, Finding

_STRENGTHS = {layer: strength for strength, layer in enumerate(Layer)}


def locate_findings(
    configuration: Configuration, findings: Iterable[Finding]
) -> tuple[Finding, ...]:
    """Gives findings about ``providers.NAME.SETTING`` and their like the file and line of it.

    What somebody found elsewhere stays as it is, and so does what is said about a setting that
    nobody has made: a line of the defaults that ship is none that a user could mend.
    """
    return tuple(_locate(configuration, finding) for finding in findings)


@contextmanager
def locating(configuration: Configuration) -> Iterator[None]:
    """Lets an error about settings say where they were written."""
    try:
        yield
    except ConfigurationError as error:
        error.findings = locate_findings(configuration, error.findings)
        raise


def _locate(configuration: Configuration, finding: Finding) -> Finding:
    source = None if finding.line else _find_source(configuration, finding.place)
    if source is None or not source.place or source.layer is Layer.DEFAULTS:
        return finding
    message = f"{finding.place}: {finding.message}"
    return Finding(place=source.place, line=source.line, message=message)


def _find_source(configuration: Configuration, name: str) -> Source | None:
    """Returns where a setting, or else the nearest around it, was written, or ships."""
    while name:
        sources = [
            setting.source
            for known, setting in configuration.settings.items()
            if known == name or known.startswith(f"{name}.")
        ]
        if sources:
            return max(sources, key=lambda source: (_STRENGTHS[source.layer], -source.line))
        name = name.rpartition(".")[0]
    return None
