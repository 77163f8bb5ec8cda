"""Conversations and their stores: durable messages that can be forked, searched and exported.

May import the messages and the errors. Must not know models, providers, the engine, or how anything
is shown on a terminal. The caller chooses the directory of a store. The exchange formats use only
the stores' protocols. The index reads the files of a directory store, and any other store through
its protocol.
"""

from __future__ import annotations

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.conversations.conversation import Conversation
    from vibe_llms.conversations.lookup import resolve
    from vibe_llms.conversations.proof import verify
    from vibe_llms.conversations.stores.defaults import StoreDefaults
    from vibe_llms.conversations.stores.directory import DirectoryStore
    from vibe_llms.conversations.stores.interfaces import ContentStore, ConversationStore
    from vibe_llms.conversations.stores.memory import MemoryStore

__all__ = [
    "ContentStore",
    "Conversation",
    "ConversationStore",
    "DirectoryStore",
    "MemoryStore",
    "StoreDefaults",
    "resolve",
    "verify",
]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "ContentStore": "stores.interfaces",
        "Conversation": "conversation",
        "ConversationStore": "stores.interfaces",
        "DirectoryStore": "stores.directory",
        "MemoryStore": "stores.memory",
        "StoreDefaults": "stores.defaults",
        "resolve": "lookup",
        "verify": "proof",
    },
)
