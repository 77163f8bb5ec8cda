"""PostgreSQL ends the transactions of clients that the network has cut off."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.batches.batching import NEEDS_DBOS
from support.network.namespaces import ADDRESSES, open_cable
from support.stores.postgresql_server import Server
from vibe_llms.agents.durable import database as runner_database
from vibe_llms.conversations.stores.postgresql.database import Database

pytestmark = [
    NEEDS_DBOS,
    pytest.mark.postgresql,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes network namespaces"),
]

CLIENT = """
import sys

import sqlalchemy

from vibe_llms.agents.durable.database import open_database
from vibe_llms.conversations.stores.postgresql.database import Database

url = sys.argv[1]
with Database(url).begin() as connection, open_database(url).connections.begin() as other:
    connection.execute("UPDATE numbers SET value = 1 WHERE name = 'store'")
    other.execute(sqlalchemy.text("UPDATE numbers SET value = 1 WHERE name = 'runner'"))
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_locks_of_a_lost_client_end() -> None:
    """Rows that a store and a runner have locked are free in time for another process."""
    with open_cable() as cable:
        server = Server(within=cable.enter(0), address=ADDRESSES[0])
        far_url = f"postgresql://vibe@{ADDRESSES[0]}:{server.port}/postgres"
        near = Database(f"postgresql://vibe@/postgres?host={server.folder}&port={server.port}")
        client: subprocess.Popen[bytes] | None = None
        try:
            runner_database.open_database(near.url).close()  # makes the tables
            with near.begin() as connection:
                connection.execute("CREATE TABLE numbers (name TEXT, value INTEGER)")
                connection.execute("INSERT INTO numbers VALUES ('store', 0), ('runner', 0)")
            client = subprocess.Popen(
                [*cable.enter(1), sys.executable, "-c", CLIENT, far_url],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            assert client.stdout is not None
            assert client.stdout.readline() == b"locked\n"
            cable.cut()
            for name in ("store", "runner"):
                with near.begin() as connection:  # waits for a lock, but not for ever
                    changed = "UPDATE numbers SET value = 2 WHERE name = %s AND value = 0"
                    assert connection.execute(changed, (name,)).rowcount == 1
        finally:
            if client is not None:
                client.kill()
                client.communicate()
            near.close()
            server.close()
