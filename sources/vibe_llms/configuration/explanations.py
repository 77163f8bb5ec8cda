"""Where each value came from, for people: what ``vibe config show`` prints."""

from __future__ import annotations

from typing import Any

from vibe_llms.configuration.classes import Configuration, Setting
from vibe_llms.configuration.redaction import redact_setting
from vibe_llms.foundation.attrs_classes import frozen


@frozen(kw_only=True)
class Explanation:
    """One value for the eyes of a person.

    Attributes:
        name: The dotted name.
        value: What was written; a secret is replaced by asterisks.
        source: Where it was written, and what keeps it from having effect, if something does.
    """

    name: str
    value: Any
    source: str


def explain_configuration(configuration: Configuration) -> tuple[Explanation, ...]:
    """Explains every value and its source, ordered by name.

    What a project's file asks for in vain stands beside the value that holds instead.
    """
    explained = [
        _explain(setting, str(setting.source)) for setting in configuration.settings.values()
    ]
    request = configuration.trust_request
    if request is not None:
        # Shown beside what holds: else nobody would find out why their file does nothing.
        condition = f"no effect until {request.folder} is trusted"
        explained += [
            _explain(setting, f"{setting.source}, {condition}") for setting in request.settings
        ]
    return tuple(sorted(explained, key=lambda explanation: explanation.name))


def _explain(setting: Setting, source: str) -> Explanation:
    return Explanation(name=setting.name, value=redact_setting(setting), source=source)
