"""Built-in stores, by their names in the setting ``store``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vibe_llms.configuration.definitions import DIRECTORY_STORE, is_postgresql_url

if TYPE_CHECKING:
    from vibe_llms.conversations.stores.interfaces import ConversationStore


def produce_shipped(name: str, data_directory: Path) -> ConversationStore | None:
    """Produce a built-in store; ``None`` if a plugin must provide it. Opens nothing yet.

    Args:
        name: ``directory``, or the URL of a database.
        data_directory: Directory for the files of ``directory``.
    """
    if name == DIRECTORY_STORE:
        from vibe_llms.conversations.stores.directory import DirectoryStore

        return DirectoryStore(data_directory)
    if is_postgresql_url(name):
        from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore

        return PostgresqlStore(name)
    return None
