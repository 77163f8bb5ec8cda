"""Asks a vendor under keys of a gateway, until it is killed; started by the test beside it.

``hammer DIRECTORY KEY...`` prints a line for whatever it has done, at once. What is printed has
happened, whatever becomes of the process. ``step DIRECTORY AT KEY`` kills itself before the n-th
of the steps that change a file, and prints how many there are where it lives.
"""

from __future__ import annotations

import asyncio
import os
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # as the tests themselves have it

from support.gateways.key_holders import produce_arrival, produce_demand, produce_usage
from support.runs.killing import KillPoint, World
from vibe_llms.daemons.keys.authorizer import KeyAuthorizer
from vibe_llms.exceptions import AccessError
from vibe_llms.plugins.specification.daemons import Authorizer

real_write = os.write


def say(word: str) -> None:
    """Says what has happened: in the pipe before anything else happens."""
    real_write(1, f"{word}\n".encode())


async def ask(authorizer: Authorizer, key: str, turn: int) -> None:
    """Asks once: of four, two are answered, one is settled later, and the last is not sent."""
    grant: Any = await authorizer.authorize(produce_arrival(key))
    reservation: Any = await grant.reserve(produce_demand(cents="0.5"))
    await asyncio.sleep(0)
    if turn % 4 == 3:
        await reservation.release()
        return
    say("sent")
    await asyncio.sleep(0)
    if turn % 4 == 2:
        name = os.urandom(8).hex()
        await reservation.defer(name)
        say(f"deferred {name}")
        if await grant.settle_deferred(name, produce_usage(), Decimal("0.25")):
            say("settled")
        return
    await reservation.settle(produce_usage(), Decimal("0.25"))
    say("settled")


async def hammer(directory: Path, keys: list[str]) -> None:
    """Asks under each key, one after the other, and two at once; ends when a budget is spent."""
    authorizer = KeyAuthorizer(directory)

    async def repeat(key: str) -> None:
        for turn in range(2000):
            try:
                await ask(authorizer, key, turn)
            except AccessError as error:
                say(f"refused {error.fault}")
                return

    await asyncio.gather(*(repeat(key) for key in keys for _ in range(2)))
    await authorizer.close()


async def step(directory: Path, at: int, key: str) -> None:
    """Asks five times, from making the authorizer to its end."""
    guillotine = KillPoint(World(directory), at, tears=True)
    guillotine.install()
    authorizer = KeyAuthorizer(directory / "keys")
    for turn in range(5):
        await ask(authorizer, key, turn)
    await authorizer.close()
    say(f"steps {guillotine.steps}")


if __name__ == "__main__":
    if sys.argv[1] == "hammer":
        asyncio.run(hammer(Path(sys.argv[2]), sys.argv[3:]))
    else:
        asyncio.run(step(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
