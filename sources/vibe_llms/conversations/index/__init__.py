"""Lists and searches conversations through a cache: an SQLite database with full-text search.

The files of the conversations are the truth and the database can always be made again from
them; it is brought up to date when it is asked, never when a canister is appended. A store that
has no files lists and searches by itself, or is read through (``reading``). On the way
of ``vibe list`` this package imports little more than ``os`` and ``sqlite3``; parsers come in
when a file has changed. It may import the errors and the form of identities; it refuses to
know canisters as objects, how anything is shown, and who asks.
"""

from __future__ import annotations

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.conversations.index.answers import SearchHit
    from vibe_llms.conversations.index.index import ConversationIndex
    from vibe_llms.conversations.index.interfaces import Index, IndexedStore
    from vibe_llms.conversations.index.reading import ReadingIndex, produce_index

__all__ = [
    "ConversationIndex",
    "Index",
    "IndexedStore",
    "ReadingIndex",
    "SearchHit",
    "produce_index",
]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "ConversationIndex": "index",
        "Index": "interfaces",
        "IndexedStore": "interfaces",
        "ReadingIndex": "reading",
        "SearchHit": "answers",
        "produce_index": "reading",
    },
)
