"""The shared store in PostgreSQL passes the store contract, on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.stores.postgresql_server import produce_url
from vibe_llms.conversations import ConversationStore
from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore
from vibe_llms.testing.contracts import StoreContract

pytestmark = pytest.mark.postgresql


class TestPostgresql(StoreContract):
    """The store in PostgreSQL."""

    @pytest.fixture(autouse=True)
    def _close_connections(self) -> Iterator[None]:
        self.stores: list[PostgresqlStore] = []
        yield
        for store in self.stores:
            store.database.close()

    def produce_store(self, directory: Path) -> ConversationStore:
        store = PostgresqlStore(produce_url(directory))
        self.stores.append(store)
        return store


class TestPostgresqlBesideAFolder(TestPostgresql):
    """The same store, with its content in a shared folder."""

    def produce_store(self, directory: Path) -> ConversationStore:
        folder = directory / "shared"
        folder.mkdir(exist_ok=True)
        store = PostgresqlStore(f"{produce_url(directory)}&content=file://{folder}")
        self.stores.append(store)
        return store
