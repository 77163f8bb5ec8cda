"""Explain the configuration: every value with its source, as ``vibe config show`` prints it."""

from __future__ import annotations

from typing import Any

from vibe_llms.configuration.classes import Configuration, Setting
from vibe_llms.configuration.redaction import redact_setting
from vibe_llms.foundation.attrs_classes import frozen


@frozen(kw_only=True)
class Explanation:
    """Value of a setting and its source, for display.

    Attributes:
        name: The dotted name.
        value: The value as written; a secret is replaced by asterisks.
        source: File, variable or option that sets it, and why it has no effect, if it has none.
    """

    name: str
    value: Any
    source: str


def explain_configuration(configuration: Configuration) -> tuple[Explanation, ...]:
    """Return every value and its source, sorted by name.

    A project's setting without effect is listed beside the value in effect.
    """
    explained = [
        _explain(setting, str(setting.source)) for setting in configuration.settings.values()
    ]
    request = configuration.trust_request
    if request is not None:
        # Listed, too, so that users see why a setting in their file has no effect.
        condition = f"ignored until {request.folder} is trusted"
        explained += [
            _explain(setting, f"{setting.source}, {condition}") for setting in request.settings
        ]
    return tuple(sorted(explained, key=lambda explanation: explanation.name))


def _explain(setting: Setting, source: str) -> Explanation:
    return Explanation(name=setting.name, value=redact_setting(setting), source=source)
