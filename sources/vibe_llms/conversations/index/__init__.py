"""Index of conversations: a cache in SQLite for lists and full-text search.

The database can always be rebuilt from the files of the conversations. It is updated by queries,
never by appends. A store without files lists and searches itself, or is read as a whole
(``reading_index``). For ``vibe list``, this package imports little more than ``os`` and
``sqlite3``, and parsers only if a file has changed. It may import the errors and the form of ids;
it must not know canisters as objects, nor any output.
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
