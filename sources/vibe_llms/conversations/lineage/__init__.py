"""Relations of conversations: turns, differences, families of forks, cherry-picks and merges.

A message keeps its id in every conversation that contains it, so that its author conversation can
be found from any fork or merge.

May import the messages, the stores' protocols and the errors. Nothing here changes a conversation:
a cherry-pick and a merge return a new fork.
"""

from __future__ import annotations

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.conversations.lineage.differences import compare_conversations, compare_words
    from vibe_llms.conversations.lineage.families import survey_family
    from vibe_llms.conversations.lineage.grafts import merge_conversations, pick_turns
    from vibe_llms.conversations.lineage.turns import split_turns

__all__ = [
    "compare_conversations",
    "compare_words",
    "merge_conversations",
    "pick_turns",
    "split_turns",
    "survey_family",
]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "compare_conversations": "differences",
        "compare_words": "differences",
        "merge_conversations": "grafts",
        "pick_turns": "grafts",
        "split_turns": "turns",
        "survey_family": "families",
    },
)
