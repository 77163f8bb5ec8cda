"""Logs and inboxes of a conversation's runs, one kind for each kind of store.

A store opens them (``open_log``, ``open_inbox``). May import the events, the log files (``logs``)
and the stores' databases. Must not know the engine, nor how a run is performed.
"""

from __future__ import annotations

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.conversations.run_logs.file_log import FileLog
    from vibe_llms.conversations.run_logs.inbox import FileInbox, MemoryInbox, RunInbox
    from vibe_llms.conversations.run_logs.log import LogDefaults, LoggedEvent, LogTail, RunLog
    from vibe_llms.conversations.run_logs.memory_log import MemoryLog

__all__ = [
    "FileInbox",
    "FileLog",
    "LogDefaults",
    "LogTail",
    "LoggedEvent",
    "MemoryInbox",
    "MemoryLog",
    "RunInbox",
    "RunLog",
]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "FileInbox": "inbox",
        "FileLog": "file_log",
        "RunInbox": "inbox",
        "LogDefaults": "log",
        "LogTail": "log",
        "LoggedEvent": "log",
        "MemoryInbox": "inbox",
        "MemoryLog": "memory_log",
        "RunLog": "log",
    },
)
