"""The stores that ship, by what the setting ``store`` calls them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vibe_llms.configuration.definitions import DIRECTORY_STORE, is_postgresql_url

if TYPE_CHECKING:
    from vibe_llms.conversations.stores.interfaces import ConversationStore


def produce_shipped(name: str, data_directory: Path) -> ConversationStore | None:
    """Produces a store that ships; ``None`` where a plugin has to have it. Opens nothing yet.

    Args:
        name: ``directory``, or the URL of a database.
        data_directory: Where the files of ``directory`` are.
    """
    if name == DIRECTORY_STORE:
        from vibe_llms.conversations.stores.directory import DirectoryStore

        return DirectoryStore(data_directory)
    if is_postgresql_url(name):
        from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore

        return PostgresqlStore(name)
    return None
