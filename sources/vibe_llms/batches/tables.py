"""Tables of batches and the meaning of each column, the same for SQLite and PostgreSQL.

Money is counted in billionths of a dollar, so that sums are exact. Names are JSON: PostgreSQL text
cannot contain the character 0, but a name may.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

BatchState: TypeAlias = Literal["filling", "open", "done", "stopped", "capped", "failed"]
"""State of a batch.

``filling``
    Not all of its inputs are submitted yet; workers already process those that are.
``open``
    All inputs are submitted, and some are not done.
``done``
    All inputs have succeeded or failed.
``stopped``
    A user has stopped it.
``capped``
    The next input could exceed its maximum cost.
``failed``
    An error occurred that every other input would meet as well, such as a missing key.
"""

WORKING: Final[tuple[BatchState, ...]] = ("filling", "open")
"""States in which workers process inputs."""

# A chunk is the unit that a worker takes from a DBOS queue. Its inputs are one row, and results
# that were written together are one row, so that there are fewer rows than items.
#
# vibe_batches: `start` is the position of its first chunk in the queue; `committed` is the sum of
# spending and reservations.
#
# vibe_chunks: `epoch` rises each time a worker takes the chunk (fencing token); `attempts` rises,
# too, unless the worker leaves in an orderly way; `held` is 1 until the worker leaves. `answered`
# is a bit set of the inputs with a result, the lowest bit for the first. `begun` counts how often
# each input was processed alone. `placed` counts the rows of results.
#
# vibe_results: `place` is the number of the row among those of its chunk, so that a follower can
# read only new rows; `mark` identifies the write.
#
# vibe_budgets: `next` is the time at which all reservations will be used up.
#
# vibe_doubts: `count` inputs of the chunk may have been processed before the worker with that epoch
# died or left; they are processed again, and both requests may be billed.
TABLES: Final = """
CREATE TABLE IF NOT EXISTS vibe_batches (
    id text PRIMARY KEY,
    about text NOT NULL,
    state text NOT NULL,
    detail text NOT NULL,
    total bigint,
    priority integer NOT NULL,
    created double precision NOT NULL,
    ended double precision,
    start bigint NOT NULL,
    cap bigint,
    committed bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS vibe_chunks (
    batch text NOT NULL REFERENCES vibe_batches (id) ON DELETE CASCADE,
    number integer NOT NULL,
    first bigint NOT NULL,
    size integer NOT NULL,
    epoch integer NOT NULL,
    attempts integer NOT NULL,
    held integer NOT NULL,
    begun text NOT NULL,
    answered bytea NOT NULL,
    placed bigint NOT NULL,
    done integer NOT NULL,
    failed integer NOT NULL,
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cost bigint NOT NULL,
    unpriced integer NOT NULL,
    PRIMARY KEY (batch, number)
);
CREATE INDEX IF NOT EXISTS vibe_due ON vibe_chunks (batch, number) WHERE done < size;
CREATE TABLE IF NOT EXISTS vibe_inputs (
    batch text NOT NULL REFERENCES vibe_batches (id) ON DELETE CASCADE,
    chunk integer NOT NULL,
    inputs bytea NOT NULL,
    PRIMARY KEY (batch, chunk)
);
CREATE TABLE IF NOT EXISTS vibe_results (
    batch text NOT NULL REFERENCES vibe_batches (id) ON DELETE CASCADE,
    chunk integer NOT NULL,
    place bigint NOT NULL,
    mark text NOT NULL,
    lines bytea NOT NULL,
    PRIMARY KEY (batch, chunk, place)
);
CREATE TABLE IF NOT EXISTS vibe_budgets (
    name text PRIMARY KEY,
    next double precision NOT NULL
);
CREATE TABLE IF NOT EXISTS vibe_doubts (
    batch text NOT NULL REFERENCES vibe_batches (id) ON DELETE CASCADE,
    chunk integer NOT NULL,
    epoch integer NOT NULL,
    count integer NOT NULL,
    PRIMARY KEY (batch, chunk, epoch)
)
"""

TABLE: Final = "vibe_batches"
"""The first table; if it exists, all exist."""

EARLIER: Final = "vibe_items"
"""A table that only earlier versions had. Their other tables have the same names as these, but
other columns."""
