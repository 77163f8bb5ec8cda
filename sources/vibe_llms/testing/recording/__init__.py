"""Exchanges with real vendors, recorded without their secrets and replayed without a network.

May import the exceptions, the secrets and the wire. Must not know protocols: it stores bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.foundation.lazy_imports import produce_attribute_access

if TYPE_CHECKING:
    from vibe_llms.testing.recording.recorder import Recorder as Recorder
    from vibe_llms.testing.recording.replayer import Replayer as Replayer

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "Recorder": "recorder",
        "Replayer": "replayer",
    },
)
