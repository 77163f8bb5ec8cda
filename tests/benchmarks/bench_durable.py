"""Cost of an agent's turn on a worker, beside the bare steps of DBOS.

The floor is a workflow of DBOS on the same database that records two steps for each turn, "ask
the model" and "execute the call", with their results. It has neither a conversation nor a log.
Our run does the same turns. Both run alternately; TURNS and ROUNDS set the numbers. The rows are
medians of milliseconds a turn: on the clock, and of all processors, with those of the server.
PostgreSQL waits for the disk, as it does by default.

The last row is the number of bytes that a run of 200 turns writes, beside those of its canisters.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import psutil
from dbos import DBOS, SetWorkflowID

from support.runs.acting import script as produce_script
from support.runs.hosted import Premises
from support.runs.written import ANSWER, CountingDisk, compose, look, measure_new
from support.stores.postgresql_server import Server
from vibe_llms import Conversation, Engine
from vibe_llms.agents.durable.database import APPLICATION, VERSION, open_database
from vibe_llms.agents.workers import WorkerSettings
from vibe_llms.conversations import ConversationStore, DirectoryStore
from vibe_llms.conversations.run_logs.log import RunLog
from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore
from vibe_llms.events.engine import RunEndedEvent
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import UserCanister

TURNS = int(os.environ.get("TURNS", "100"))
ROUNDS = int(os.environ.get("ROUNDS", "7"))
BUDGET, BYTES = 1.2, 3.0
LONG = 200
LIMITS = f"[limits]\nrun_steps = {TURNS + 1}\nrun_invocations = {TURNS}\n"


@attrs.frozen
class Cost:
    """Of a turn, in milliseconds."""

    wall: float
    processors: float


class Meter:
    """Reads clocks: this process's, and those of a server's processes."""

    def __init__(self, server: Server | None) -> None:
        self._server = server and psutil.Process(server.pid)

    def read(self) -> tuple[float, float]:
        """Returns seconds: on the clock, and of processors."""
        spent = time.process_time()
        if self._server is not None:
            own = self._server.cpu_times()
            spent += own.user + own.system + own.children_user + own.children_system
            for each in self._server.children(recursive=True):
                times = each.cpu_times()
                spent += times.user + times.system
        return time.perf_counter(), spent

    def since(self, begun: tuple[float, float]) -> Cost:
        """Returns what a turn has cost since."""
        wall, processors = self.read()
        return Cost(*((each * 1000 / TURNS) for each in (wall - begun[0], processors - begun[1])))


def measure_floor(url: str, meter: Meter, number: int) -> Cost:
    """Performs the steps in a workflow of DBOS."""
    engine = open_database(url)
    DBOS(
        config={
            "name": APPLICATION,
            "application_version": VERSION,
            "executor_id": "floor",
            "system_database_engine": engine.connections,
            "dbos_system_schema": engine.schema or "dbos",
            "serializer": engine.serializer,
            "use_listen_notify": False,
            "log_level": "ERROR",
        }
    )

    @DBOS.step(name="ask")
    async def ask(turn: int) -> str:
        return f"{turn}: {ANSWER}"

    @DBOS.step(name="execute")
    async def execute(turn: int) -> str:
        return look(str(turn))

    @DBOS.workflow(name="floor")
    async def perform() -> int:
        count = 0
        for turn in range(TURNS):
            count += len(await ask(turn)) + len(await execute(turn))
        return count

    async def run() -> Cost:
        begun = meter.read()
        with SetWorkflowID(f"floor-{number}"):
            await perform()
        return meter.since(begun)

    DBOS.listen_queues(["floor"])
    DBOS.launch()
    try:
        return asyncio.run(run())
    finally:
        DBOS.destroy(destroy_registry=True)
        engine.close()


def measure_ours(url: str, meter: Meter, folder: Path, store: ConversationStore) -> Cost:
    """Performs the turns as a run that a worker takes; without the wait in the queue."""

    async def run() -> Cost:
        (folder / "none.toml").write_text(LIMITS)
        premises = Premises(
            folder, tools=[look], shared=store, runner=url, settings=WorkerSettings()
        )
        spec = premises.spec(*compose(TURNS))
        async with premises:
            asked = await premises.runs.start(spec, [UserCanister("Go.")])
            begun = meter.read()
            log = store.open_log(asked.id)
            while True:  # watchers would add to the cost and are not measured
                if isinstance(await asyncio.to_thread(_read_last, log), RunEndedEvent):
                    break
                await asyncio.sleep(0.2)
            cost = meter.since(begun)
        at = {each.event.type: each.timestamp for each in log.read()}
        seconds = (at["run.ended"] - at["run.started"]).total_seconds()
        return attrs.evolve(cost, wall=seconds * 1000 / TURNS)

    return asyncio.run(run())


def _read_last(log: RunLog) -> object:
    last = log.read_last()
    return last.event if last else None


def compare(name: str, floor: Callable[[int], Cost], ours: Callable[[int], Cost]) -> None:
    """Measures both by turns, and tells."""
    costs: list[tuple[Cost, Cost]] = []
    for number in range(ROUNDS + 1):
        pair = floor(number), ours(number)
        if number:  # the first is to warm up
            costs.append(pair)
    for what in ("wall", "processors"):
        pairs = [(getattr(a, what), getattr(b, what)) for a, b in costs]
        ratios = sorted(b / a for a, b in pairs)
        ratio = statistics.median(ratios)
        print(
            f"{name:11} {what:11} floor {statistics.median(a for a, _ in pairs):6.2f} ms,"
            f" ours {statistics.median(b for _, b in pairs):6.2f} ms, ratio {ratio:.2f}"
            f" ({ratios[0]:.2f} to {ratios[-1]:.2f}); aim {BUDGET} or less:"
            f" {'met' if ratio <= BUDGET else 'missed'}",
            flush=True,
        )


def count_bytes(folder: Path) -> None:
    """Counts what a long run writes, and tells."""
    disk = CountingDisk()
    store, conversation = DirectoryStore(folder, disk=disk), Conversation()
    conversation.add_user_message("Go.")
    limits = Limits(run_steps=LONG + 1, run_invocations=LONG)
    engine = Engine(produce_script(*compose(LONG)), [look], store=store, limits=limits)
    asyncio.run(engine.answer(conversation))
    new = measure_new(store, conversation.id)
    ratio = disk.written / new
    print(
        f"files       {LONG} turns bring {new} bytes of canisters and write {disk.written}, "
        f"ratio {ratio:.2f}; aim {BYTES} or less: {'met' if ratio <= BYTES else 'missed'}"
    )


def main() -> None:
    """Prints the table."""
    with tempfile.TemporaryDirectory() as place:
        count_bytes(Path(place))
    print(f"{TURNS} turns, {ROUNDS} rounds")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        store = DirectoryStore(folder / "store")
        url = f"sqlite:///{folder}/runner.db"
        meter = Meter(None)
        compare(
            "SQLite",
            lambda number: measure_floor(url, meter, number),
            lambda _: measure_ours(url, meter, folder, store),
        )
    server = Server(fsync=True)
    try:
        with tempfile.TemporaryDirectory() as place:
            shared = PostgresqlStore(server.url)
            meter = Meter(server)
            compare(
                "PostgreSQL",
                lambda number: measure_floor(server.url, meter, number),
                lambda _: measure_ours(server.url, meter, Path(place), shared),
            )
            shared.database.close()
    finally:
        server.close()


if __name__ == "__main__":
    main()
