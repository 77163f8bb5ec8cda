"""Index of conversations: a cache in SQLite for lists and full-text search.

The database can always be rebuilt from the files of the conversations. It is updated before each
list or search, and not when messages are appended. A store without files has another index, or is
read completely each time (``reading_index``). For ``vibe list``, this package imports little more
than ``os`` and ``sqlite3``, and parsers only if a file has changed. This package may import the
errors and the stores' folder layout. Except for ``reading_index``, it must not know canisters as
objects.
"""

from __future__ import annotations

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.conversations.index.index import ConversationIndex
    from vibe_llms.conversations.index.interfaces import Index
    from vibe_llms.conversations.index.reading_index import ReadingIndex
    from vibe_llms.conversations.index.result_rows import SearchHit

__all__ = [
    "ConversationIndex",
    "Index",
    "ReadingIndex",
    "SearchHit",
]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "ConversationIndex": "index",
        "Index": "interfaces",
        "ReadingIndex": "reading_index",
        "SearchHit": "result_rows",
    },
)
