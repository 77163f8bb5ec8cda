"""The tables of batches, and what each column means. SQLite and PostgreSQL read them the same.

Money is counted in billionths of a dollar, so that sums are exact. Names are JSON: PostgreSQL has
no text with the character 0, and a name may have it.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final, Literal, TypeAlias

BatchState: TypeAlias = Literal["filling", "open", "done", "stopped", "capped", "failed"]
"""Where a batch stands.

``filling``
    Whoever has asked for it has not said all of its inputs yet; those that are there are worked on.
``open``
    All inputs are there, and not all are done.
``done``
    All are done or failed.
``stopped``
    Somebody has stopped it.
``capped``
    The next input might have cost more than was left of what it may cost.
``failed``
    It has met what every input would meet, as a missing key.
"""

WORKING: Final[tuple[BatchState, ...]] = ("filling", "open")
"""In which states inputs are worked on."""

_NANO: Final = 1_000_000_000

# A chunk is what a worker takes at once. `epoch` rises whenever somebody takes it, `attempts`
# unless that one leaves by itself. `placed` counts its results, also those that were replaced: the
# `place` of an item is its number among them, so that whoever follows a batch asks for what has
# come since. `begun` of an item counts how often it was asked where each is asked by itself.
# `committed` of a batch is what was spent and what is on its way. A budget's `next` is the moment
# at which all that was reserved of it will have been used up.
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
    done integer NOT NULL,
    failed integer NOT NULL,
    placed bigint NOT NULL,
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cost bigint NOT NULL,
    unpriced integer NOT NULL,
    PRIMARY KEY (batch, number)
);
CREATE TABLE IF NOT EXISTS vibe_items (
    batch text NOT NULL REFERENCES vibe_batches (id) ON DELETE CASCADE,
    number bigint NOT NULL,
    chunk integer NOT NULL,
    name text,
    digest text NOT NULL,
    input text NOT NULL,
    begun integer NOT NULL,
    place bigint,
    failed integer,
    outcome text,
    PRIMARY KEY (batch, number)
);
CREATE TABLE IF NOT EXISTS vibe_budgets (
    name text PRIMARY KEY,
    next double precision NOT NULL
)
"""


def count_money(amount: Decimal) -> int:
    """Returns dollars as the tables count them; what is less than the smallest counts as one."""
    return math.ceil(amount * _NANO)


def read_money(count: int) -> Decimal:
    """Returns dollars."""
    return Decimal(count) / _NANO
