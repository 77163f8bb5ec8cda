"""Long runs of chaos against the three daemons, for a release or by hand.

Run ``python tests/support/daemons/daemons_chaos.py MINUTES [SEED]``. Gateway, agents and tools are
processes in front of a simulated vendor that counts its requests. During the runs
(``daemon_crowds.py``) they are killed at random and restarted, terminated, paused, and given full
disks. Each run has to end right, each call to take effect once or be asked about, each event to be
told once, and nothing to be billed twice unsaid.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # a program of its own finds `support`

from support.daemons import three_daemons
from support.daemons.daemon_crowds import Crowd
from support.daemons.three_daemons import NAMES, Trio

AT_ONCE: Final = 6
STUCK_SECONDS: Final = 120.0
END_SECONDS: Final = 180.0
MOST_EVENTS: Final = 180
"""How many events are told at most between two troubles of one: all runs come further meanwhile."""


async def kill(trio: Trio, name: str, dice: random.Random) -> str:
    """Kills one of the three, and starts it again, at once or a little later."""
    await trio.daemons[name].end()
    await asyncio.sleep(dice.choice((0, dice.random())))
    await trio.start(name)
    return f"{name} killed"


async def replace(trio: Trio, name: str, dice: random.Random) -> str:
    """Asks one to leave, as for an update, and starts it again."""
    daemon = trio.daemons[name]
    code = await daemon.end(kill=False)
    assert code == 0, f"{name} left with {code}: {''.join(daemon.printed[-20:])}"
    await trio.start(name)
    return f"{name} replaced"


async def pause(trio: Trio, name: str, dice: random.Random) -> str:
    """Stops one where it is, as a machine that stalls does, and lets it go on."""
    running = psutil.Process(trio.daemons[name].pid)
    running.suspend()
    await asyncio.sleep(dice.random() * 3)
    running.resume()
    return f"{name} paused"


async def fill(trio: Trio, name: str, dice: random.Random) -> str:
    """Lets the disk of one be full for a while, and for whatever it starts."""
    running = psutil.Process(trio.daemons[name].pid)
    _, most = running.rlimit(psutil.RLIMIT_FSIZE)
    is_agents = name == "agents"
    trio.is_full |= is_agents
    # Of a line of a log a message fits: it is torn.
    running.rlimit(psutil.RLIMIT_FSIZE, (int(is_agents), most))
    await asyncio.sleep(dice.random() * 2)
    running.rlimit(psutil.RLIMIT_FSIZE, (most, most))
    trio.is_full &= not is_agents
    return f"disk of {name} full"


TROUBLES: Final = (kill, kill, kill, replace, pause, fill)


Trouble: TypeAlias = Callable[[Trio, str, random.Random], Awaitable[str]]


async def rage(
    trio: Trio,
    dice: random.Random,
    goes_on: Callable[[Counter[str]], bool],
    *,
    at_once: int = AT_ONCE,
    troubles: Sequence[Trouble] = TROUBLES,
) -> tuple[Counter[str], list[str], Crowd]:
    """Makes trouble for each of the three at random under load, as long as it goes on.

    Returns:
        What was done how often, what does not hold, and the crowd.
    """
    deaths: Counter[str] = Counter()
    crowd = Crowd(trio, dice)
    living = [
        asyncio.create_task(crowd.go_on(servers=("tools", "tools", "asking")))
        for _ in range(at_once)
    ]

    async def torment(name: str, dice: random.Random) -> None:
        while goes_on(deaths):
            wanted = crowd.count_told() + dice.randint(0, MOST_EVENTS)
            async with asyncio.timeout(STUCK_SECONDS):
                while crowd.count_told() < wanted:  # noqa: ASYNC110  # watchers tell nobody
                    await asyncio.sleep(0.05)
            await asyncio.sleep(dice.random() * 0.3)
            deaths[await dice.choice(troubles)(trio, name, dice)] += 1

    faults = []
    try:
        async with asyncio.TaskGroup() as tormenting:  # by chance, also two or three at once
            for name in NAMES:
                tormenting.create_task(torment(name, random.Random(dice.random())))
        crowd.is_over = True
        async with asyncio.timeout(END_SECONDS):
            await asyncio.gather(*living)
    except* TimeoutError:
        faults.append("nothing happens any more")
    for each in living:
        each.cancel()
    for error in await asyncio.gather(*living, return_exceptions=True):
        if isinstance(error, Exception):
            faults.append("".join(traceback.format_exception(error)))
    faults += await crowd.judge()
    for name, daemon in trio.daemons.items():
        before, found, behind = "".join(daemon.printed).partition("Traceback")
        if found:
            faults.append(f"{name} has said: {before[-2000:]}{found}{behind[:8000]}")
    return deaths, faults, crowd


async def run(seconds: float, seed: int, folder: Path) -> int:
    """Rages until the time is over; returns how much does not hold."""
    dice, end = random.Random(seed), time.monotonic() + seconds
    with pytest.MonkeyPatch.context() as monkeypatch:
        async with three_daemons.running(folder, monkeypatch, simulate="slow=3") as trio:
            deaths, faults, crowd = await rage(trio, dice, lambda _: time.monotonic() < end)
            print(
                f"{dict(deaths)}; {len(crowd.lives)} runs, {crowd.count_told()} events told,"
                f" {len(trio.simulator.requests)} requests of the vendor; {dict(crowd.words)}",
                *(f"but not: {fault}" for fault in faults),
                sep="\n",
                flush=True,
            )
    return len(faults)


def main() -> int:
    """Makes a run; returns 1 where something was found."""
    seconds = 60 * float(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().getrandbits(32)
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # of clients that are killed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        return int(bool(asyncio.run(run(seconds, seed, Path(folder)))))


if __name__ == "__main__":
    sys.exit(main())
