"""Retrieval: search of conversations and documents by meaning.

Texts are split into passages at their headings and paragraphs. An embedder turns each into a
vector, and one database holds the passages with their vectors and their words. The database is a
cache, updated by each search. This package may import instruments and everything below; it must not
know the command line.
"""

from __future__ import annotations

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.retrieval.meaning import MeaningIndex, SyncMeaningIndex
    from vibe_llms.retrieval.ranking import MeaningHit

__all__ = ["MeaningHit", "MeaningIndex", "SyncMeaningIndex"]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {"MeaningHit": "ranking", "MeaningIndex": "meaning", "SyncMeaningIndex": "meaning"},
)
