"""Counters of the bytes that runs write to files and rows, and of their new data."""

from __future__ import annotations

import psycopg

from support.runs.acting import invoke, say
from support.stores.disks import HastyDisk
from vibe_llms.conversations import ConversationStore
from vibe_llms.messages.codec.canister_lines import encode_canister

ANSWER, RESULT = "It is looked up again, as there is more. " * 5, "What was found there. " * 90


class CountingDisk(HastyDisk):
    """Disk that counts all written bytes."""

    def __init__(self) -> None:
        self.written = 0

    def write(self, descriptor: int, data: bytes) -> None:
        self.written += len(data)
        super().write(descriptor, data)

    def overwrite_start(self, descriptor: int, data: bytes) -> None:
        self.written += len(data)
        super().overwrite_start(descriptor, data)


def look(where: str) -> str:
    """Looks."""
    return f"{where}: {RESULT}"


def compose(turns: int) -> list[list[dict[str, object]]]:
    """Return ``turns`` turns with a text and a call, and a last one."""
    return [
        *(
            [say(ANSWER), invoke("look", f"c{number}", where=f"{number}")]
            for number in range(turns)
        ),
        [say("Done.")],
    ]


def measure_new(store: ConversationStore, identity: str) -> int:
    """Return the size of all canisters, written once."""
    return sum(len(encode_canister(each)) for each in store.read(identity).canisters)


_ROWS = """
SELECT table_schema, table_name FROM information_schema.tables
WHERE table_schema LIKE '%%' || current_schema() || '%%' AND table_type = 'BASE TABLE'
"""


def count_rows(url: str) -> int:
    """Return the size of all rows in the tables of the store and the runner."""
    total = 0
    with psycopg.connect(url) as connection:
        for schema, name in connection.execute(_ROWS).fetchall():
            query = f'SELECT coalesce(sum(octet_length(t::text)), 0) FROM "{schema}"."{name}" AS t'
            row = connection.execute(query).fetchone()  # type: ignore[call-overload]
            total += int(row[0])
    return total
