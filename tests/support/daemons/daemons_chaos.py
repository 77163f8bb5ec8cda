"""Long runs of chaos against the three daemons, for a release or by hand.

Run ``python tests/support/daemons/daemons_chaos.py MINUTES [SEED]``. Gateway, agents and tools are
processes in front of a simulated vendor that counts its requests. During the runs
(``daemon_crowds.py``) they are killed at random and restarted, terminated, paused, and given full
disks. Each run has to end with its answer; each call has to take effect once, or need an approval
before it is repeated; each watcher has to receive each event once; and the log has to explain each
request to the vendor.
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

sys.path.insert(0, str(Path(__file__).parents[2]))  # so that `support` can be imported

from support.daemons import three_daemons
from support.daemons.daemon_crowds import Crowd
from support.daemons.three_daemons import NAMES, Trio

AT_ONCE: Final = 6
STUCK_SECONDS: Final = 120.0
END_SECONDS: Final = 180.0
MAX_EVENTS: Final = 180
"""How many events watchers receive at most between two troubles, so that all runs progress."""


async def kill(trio: Trio, name: str, dice: random.Random) -> str:
    """Kill a daemon, and start it again, at once or a little later."""
    await trio.daemons[name].end()
    await asyncio.sleep(dice.choice((0, dice.random())))
    await trio.start(name)
    return f"{name} killed"


async def replace(trio: Trio, name: str, dice: random.Random) -> str:
    """Terminate a daemon gracefully, as for an update, and start it again."""
    daemon = trio.daemons[name]
    code = await daemon.end(kill=False)
    assert code == 0, f"{name} exited with {code}: {''.join(daemon.printed[-20:])}"
    await trio.start(name)
    return f"{name} replaced"


async def pause(trio: Trio, name: str, dice: random.Random) -> str:
    """Suspend the process of a daemon for a while, as a stalled machine would."""
    running = psutil.Process(trio.daemons[name].pid)
    running.suspend()
    await asyncio.sleep(dice.random() * 3)
    running.resume()
    return f"{name} paused"


async def fill(trio: Trio, name: str, dice: random.Random) -> str:
    """Let the disk be full for a while, for a daemon and the processes that it starts."""
    running = psutil.Process(trio.daemons[name].pid)
    _, limit = running.rlimit(psutil.RLIMIT_FSIZE)
    is_agents = name == "agents"
    trio.is_full |= is_agents
    # One byte fits, so that a line of a log is torn.
    running.rlimit(psutil.RLIMIT_FSIZE, (int(is_agents), limit))
    await asyncio.sleep(dice.random() * 2)
    running.rlimit(psutil.RLIMIT_FSIZE, (limit, limit))
    trio.is_full &= not is_agents
    return f"disk of {name} full"


TROUBLES: Final = (kill, kill, kill, replace, pause, fill)


Trouble: TypeAlias = Callable[[Trio, str, random.Random], Awaitable[str]]


async def run_chaos(
    trio: Trio,
    dice: random.Random,
    continues: Callable[[Counter[str]], bool],
    *,
    at_once: int = AT_ONCE,
    troubles: Sequence[Trouble] = TROUBLES,
) -> tuple[Counter[str], list[str], Crowd]:
    """Disturb each of the three daemons at random under load.

    Returns:
        How often each trouble was made, the faults, and the crowd.
    """
    troubles_made: Counter[str] = Counter()
    crowd = Crowd(trio, dice)
    tasks = [
        asyncio.create_task(crowd.perform_runs(servers=("tools", "tools", "asking")))
        for _ in range(at_once)
    ]

    async def disturb(name: str, dice: random.Random) -> None:
        while continues(troubles_made):
            wanted = crowd.count_events() + dice.randint(0, MAX_EVENTS)
            async with asyncio.timeout(STUCK_SECONDS):
                while crowd.count_events() < wanted:  # noqa: ASYNC110  # watchers only fill lists
                    await asyncio.sleep(0.05)
            await asyncio.sleep(dice.random() * 0.3)
            troubles_made[await dice.choice(troubles)(trio, name, dice)] += 1

    faults = []
    try:
        async with asyncio.TaskGroup() as disturbances:  # two or three may coincide
            for name in NAMES:
                disturbances.create_task(disturb(name, random.Random(dice.random())))
        crowd.is_ending = True
        async with asyncio.timeout(END_SECONDS):
            await asyncio.gather(*tasks)
    except* TimeoutError:
        faults.append("no progress")
    for each in tasks:
        each.cancel()
    for error in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(error, Exception):
            faults.append("".join(traceback.format_exception(error)))
    faults += await crowd.judge()
    for name, daemon in trio.daemons.items():
        before, found, after = "".join(daemon.printed).partition("Traceback")
        if found:
            faults.append(f"{name} printed: {before[-2000:]}{found}{after[:8000]}")
    return troubles_made, faults, crowd


async def run(seconds: float, seed: int, folder: Path) -> int:
    """Run the chaos for some seconds; return the count of faults."""
    dice, end = random.Random(seed), time.monotonic() + seconds
    with pytest.MonkeyPatch.context() as monkeypatch:
        async with three_daemons.running(folder, monkeypatch, simulate="slow=3") as trio:
            troubles_made, faults, crowd = await run_chaos(
                trio, dice, lambda _: time.monotonic() < end
            )
            print(
                f"{dict(troubles_made)}; {len(crowd.runs)} runs, {crowd.count_events()} events,"
                f" {len(trio.simulator.requests)} vendor requests; {dict(crowd.event_counts)}",
                *(f"fault: {fault}" for fault in faults),
                sep="\n",
                flush=True,
            )
    return len(faults)


def main() -> int:
    """Run the chaos; return 1 if there are faults."""
    seconds = 60 * float(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().getrandbits(32)
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # of clients that are killed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        return int(bool(asyncio.run(run(seconds, seed, Path(folder)))))


if __name__ == "__main__":
    sys.exit(main())
