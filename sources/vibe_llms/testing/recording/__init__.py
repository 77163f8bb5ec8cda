"""Exchanges with real vendors, recorded without their secrets and replayed without a network.

May import the exceptions, the secrets and the wire. Refuses to know protocols: it keeps bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.laziness import produce_attribute_access

if TYPE_CHECKING:
    from .recorder import Recorder as Recorder
    from .recordings import Recording as Recording
    from .recordings import read_recordings as read_recordings
    from .replayer import Replayer as Replayer
    from .replayer import UnrecordedRequestError as UnrecordedRequestError
    from .scrubbing import Scrubber as Scrubber

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "Recorder": "recorder",
        "Recording": "recordings",
        "Replayer": "replayer",
        "Scrubber": "scrubbing",
        "UnrecordedRequestError": "replayer",
        "read_recordings": "recordings",
    },
)
