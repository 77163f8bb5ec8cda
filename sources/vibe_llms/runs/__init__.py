"""Where runs are performed: what stands behind the engine's ``RunContext``, and their logs.

May import the engine and whatever lies below. Refuses to decide anything: that is the engine's.
"""

from __future__ import annotations

from vibe_llms.laziness import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.runs.log import LoggedEvent, RunLog
    from vibe_llms.runs.places import LoggedStore, produce_log
    from vibe_llms.runs.waiting import Waiting, answer, survey_waiting

__all__ = [
    "LoggedEvent",
    "LoggedStore",
    "RunLog",
    "Waiting",
    "answer",
    "produce_log",
    "survey_waiting",
]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "LoggedEvent": "log",
        "LoggedStore": "places",
        "RunLog": "log",
        "Waiting": "waiting",
        "answer": "waiting",
        "produce_log": "places",
        "survey_waiting": "waiting",
    },
)
