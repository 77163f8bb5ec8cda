"""Long runs of attacks on a gateway in a process of its own, before a release or by hand.

Run ``python tests/support/gateways/gateway_chaos.py nonsense|kills|growth MINUTES [SEED]``.

``nonsense`` sends invalid requests and WebSocket messages (``gateway_nonsense.py``). The gateway
must not answer invalid requests with a status of 500 or above, show internal data, or log an
exception. ``kills`` kills workers or the whole gateway at random under load, and compares the
accounts of keys with the counts of clients and upstream. ``growth`` sends invalid requests from
several clients; after the start, the process must not grow.
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import aiohttp
import psutil

sys.path.insert(0, str(Path(__file__).parents[2]))  # a program of its own finds `support`

from support.gateways.crowds import CLIENTS, ClientCrowd, find_faults, survey
from support.gateways.gateway_nonsense import Client, draw_frames, draw_messages, draw_request
from support.gateways.hostile_upstreams import answer_with_faults, gateway_process, start
from support.gateways.key_holders import create_key, sum_spending
from support.network.wire_servers import serve

_MEBIBYTE = 1_048_576


async def send_nonsense(client: Client, dice: random.Random) -> str:
    """Send a random request; return what is wrong with the answer, or an empty text."""
    drawn: object = None
    printed = len(client.process.printed)
    try:
        if (kind := dice.random()) < 0.85:
            drawn = draw_request(dice)
            await client.send(drawn)
        elif kind < 0.97:
            drawn = draw_messages(dice)
            await client.converse(drawn)
        else:
            drawn = draw_frames(dice)
            await client.break_socket(drawn)
    except Exception as error:  # any error is a finding
        await asyncio.sleep(0.3)  # lines of the log wait for each other
        said = "".join(client.process.printed[printed:])
        return f"{type(error).__name__} {error}\n    of {drawn!r}\n{said}"
    said = "".join(client.process.printed[printed:])
    return f"in the log: {said}\n    of {drawn!r}" if "Traceback" in said else ""


async def run_nonsense(seconds: float, seed: int, folder: Path) -> int:
    """Send invalid requests until the time is over; return the number of findings."""
    dice, findings, count = random.Random(seed), 0, 0
    kinds: set[str] = set()
    async with gateway_process(folder) as process, aiohttp.ClientSession() as session:
        client = Client(process, session)
        await client.prepare()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            count += 1
            if count % 200 == 0:
                await client.prepare()  # create deleted conversations and responses again
            if finding := await send_nonsense(client, dice):
                findings += 1
                if (kind := _shorten(finding)) not in kinds:
                    kinds.add(kind)
                    print(finding[:6_000], flush=True)
    print(f"nonsense: {count} sent, {findings} findings, by status {client.statuses}", flush=True)
    return findings


def _shorten(finding: str) -> str:
    """Return a text that is equal for findings of the same kind."""
    description, _, _ = finding.partition("\n    of ")
    return re.sub(r"\d+|req_\w+|'[^']*'", "", description.rpartition("\r\n\r\n")[2].strip()[-150:])


async def run_growth(seconds: float, seed: int, folder: Path) -> int:
    """Send invalid requests from eight clients; return 1 if the process has grown."""
    sizes: list[float] = []
    async with gateway_process(folder) as process, aiohttp.ClientSession() as session:
        clients = [Client(process, session) for _ in range(8)]
        for client in clients:
            await client.prepare()
        running, end = psutil.Process(process.running.pid), time.monotonic() + seconds

        async def keep_sending(client: Client, dice: random.Random) -> None:
            while time.monotonic() < end:
                await send_nonsense(client, dice)

        asking = [
            asyncio.create_task(keep_sending(client, random.Random(seed + number)))
            for number, client in enumerate(clients)
        ]
        for _ in range(20):
            await asyncio.sleep(seconds / 20)
            sizes.append(running.memory_info().rss / _MEBIBYTE)
        await asyncio.gather(*asking)
        total = sum(sum(each.statuses.values()) for each in clients)
    print(f"growth: {total} requests, MiB: {' '.join(f'{each:.0f}' for each in sizes)}", flush=True)
    return int(sum(sizes[-4:]) / 4 > sum(sizes[6:10]) / 4 * 1.1)


async def run_kills(seconds: float, seed: int, folder: Path) -> int:
    """Kill and restart processes until the time is over; return the number of violated rules."""
    dice, deaths = random.Random(seed), 0
    async with serve(answer_with_faults) as upstream:
        process = await start(folder, upstream, workers=2)
        port = int(process.url.rpartition(":")[2])
        process.key = create_key(process.keys, "bob", requests_per_minute=10**6)
        crowd = ClientCrowd(process)
        asking = [asyncio.create_task(crowd.keep_asking(number)) for number in range(CLIENTS)]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await crowd.wait_for_answers(
                dice.randint(1, 60)
            )  # fails if the gateway does not recover
            running = psutil.Process(process.running.pid)
            workers = running.children()
            if dice.random() < 0.7:
                deaths += 1
                with suppress(psutil.NoSuchProcess):
                    dice.choice(workers).kill()
                continue
            deaths += len(workers)
            for each in (running, *workers):
                with suppress(psutil.NoSuchProcess):
                    each.kill()
            await process.running.wait()
            process = await start(folder, upstream, key=process.key, workers=2, port=port)
        await crowd.wait_for_answers(20)
        crowd.is_over = True
        await asyncio.gather(*asking)
        await process.end()
        upstream_models = process.survey_upstream()
    account = survey(process.keys)
    whole = sum_spending(account)
    faults = find_faults(account, crowd.acknowledged, upstream_models, deaths)
    print(
        f"kills: {deaths} deaths, {len(crowd.acknowledged)} acknowledged, {len(upstream_models)}"
        f" sent, {whole.requests} billed, {whole.perhaps_requests} perhaps",
        *(f"but not: {fault}" for fault in faults),
        flush=True,
    )
    return len(faults)


RUNS = {"nonsense": run_nonsense, "kills": run_kills, "growth": run_growth}


def main() -> int:
    """Perform a run; return 1 if there are findings."""
    what, seconds = RUNS[sys.argv[1]], 60 * float(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().getrandbits(32)
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        return int(bool(asyncio.run(what(seconds, seed, Path(folder)))))


if __name__ == "__main__":
    sys.exit(main())
