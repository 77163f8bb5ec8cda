"""Spans and metrics by OpenTelemetry's conventions for generative AI, if its SDK is installed.

Importing this package has no requirements; creating an observer requires ``opentelemetry-api``.
Without a configured provider, spans and metrics are discarded. Texts are recorded only if this is
enabled. The module ``conventions`` names the conventions and their version.
"""

from __future__ import annotations

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.telemetry.opentelemetry.observer import OpenTelemetryObserver

__all__ = ["OpenTelemetryObserver"]

__getattr__, __dir__ = produce_attribute_access(__name__, {"OpenTelemetryObserver": "observer"})
