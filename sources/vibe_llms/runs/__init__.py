"""Surroundings of runs: the implementation of the engine's ``RunContext``, and readers of logs.

May import the engine and the packages below it. Must not decide anything about a run: that is the
engine's task.
"""

from __future__ import annotations

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.conversations.run_logs.log import LoggedEvent, RunLog
    from vibe_llms.runs.indexing import survey_runs
    from vibe_llms.runs.summaries import RunSummary
    from vibe_llms.runs.surveying import read_summary
    from vibe_llms.runs.waiting import Waiting, answer, survey_waiting

__all__ = [
    "LoggedEvent",
    "RunLog",
    "RunSummary",
    "Waiting",
    "answer",
    "read_summary",
    "survey_runs",
    "survey_waiting",
]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "LoggedEvent": "vibe_llms.conversations.run_logs.log",
        "RunLog": "vibe_llms.conversations.run_logs.log",
        "RunSummary": "summaries",
        "Waiting": "waiting",
        "answer": "waiting",
        "read_summary": "surveying",
        "survey_runs": "indexing",
        "survey_waiting": "waiting",
    },
)
