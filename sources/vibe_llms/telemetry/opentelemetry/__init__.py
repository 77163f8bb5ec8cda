"""Spans and metrics by OpenTelemetry's conventions for generative AI, for those who have its SDK.

Importing this needs nothing; making an observer needs ``opentelemetry-api``. Where nobody has set a
provider up, what is observed goes nowhere. Texts are recorded only for those who ask for
them; the conventions followed, and their version, are named in ``conventions``.
"""

from __future__ import annotations

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.telemetry.opentelemetry.observer import OpenTelemetryObserver

__all__ = ["OpenTelemetryObserver"]

__getattr__, __dir__ = produce_attribute_access(__name__, {"OpenTelemetryObserver": "observer"})
