"""Workers of runs with scripted models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs

from support.runs.scripting import write_script
from vibe_llms.agents.executing import RunExecutor
from vibe_llms.agents.interfaces import Runner
from vibe_llms.agents.local import LocalRuns
from vibe_llms.agents.queues import Queue
from vibe_llms.agents.run_specs import RunSpec
from vibe_llms.agents.runners import LOCAL, produce_runner
from vibe_llms.agents.workers import WorkerSettings
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.conversations import ConversationStore, DirectoryStore
from vibe_llms.conversations.run_logs.log import claim_soon
from vibe_llms.events.flow import LogEvent
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.runs.summaries import RunSummary

FAST = WorkerSettings(scan_seconds=0.05, retry_seconds=0.01, longest_retry_seconds=0.02, attempts=3)


def produce_application(folder: Path) -> Application:
    """Create an application in whose configuration ``play`` is the script of the folder."""
    environment = {"HOME": str(folder), "VIBE_LLMS_CONFIG": str(folder / "none.toml")}
    script = json.dumps(f"scripted:{folder / 'script.toml'}")
    file, alias = folder / "none.toml", f"[aliases]\nplay = {script}\n"
    configured = file.read_text("utf-8") if file.exists() else ""
    if alias not in configured:
        file.write_text(configured + alias, encoding="utf-8")
    return Application(load_configuration(environment=environment, working_directory=folder))


def write_event(store: ConversationStore, run_id: str, event: LogEvent) -> None:
    """Add an event to a log, as another worker does."""
    log = store.open_log(run_id)
    claim_soon(log)
    try:
        log.append(run_id, event)
        log.synchronize()
    finally:
        log.close()


@attrs.define
class Premises:
    """A store, its runs, and a runner for them.

    Attributes:
        folder: Folder of all files.
        tools: Tools of any ensemble that a run specification names.
        settings: Settings of the worker.
        shared: The store; by default, files below the folder.
        runner: URL of the runner.
        queues: Queues of the runner's worker.
        listener: Receives all events.
    """

    folder: Path
    tools: Sequence[Any] = ()
    settings: WorkerSettings = FAST
    shared: ConversationStore | None = None
    runner: str = LOCAL
    queues: Sequence[Queue] = (Queue(),)
    listener: Callable[[str, Any], object] | None = None
    runs: LocalRuns = attrs.field(init=False)
    host: Runner = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        store = self.shared or DirectoryStore(self.folder / "store")
        application = produce_application(self.folder)
        limits = application.configuration.limits

        async def produce_tools(_: Sequence[str]) -> Sequence[Any]:
            return self.tools

        executor = RunExecutor(
            store=store,
            application=application,
            limits=limits,
            produce_tools=produce_tools,
            listener=self.listener,
        )
        self.host = produce_runner(self.runner, executor, queues=self.queues, hosting=self.settings)
        self.runs = LocalRuns(store, application, host=self.host)

    @property
    def store(self) -> DirectoryStore:
        """The store of the runs."""
        return self.runs.store  # type: ignore[return-value]

    def spec(self, *turns: Iterable[dict[str, Any]], **more: Any) -> RunSpec:
        """Return the specification of a run whose model follows a script."""
        path = write_script(self.folder, *({"contents": list(turn)} for turn in turns))
        return RunSpec(model=f"scripted:{path}", ensembles=("any",), **more)

    async def start(self, spec: RunSpec, **more: Any) -> str:
        """Start a run; return its id."""
        return (await self.runs.start(spec, [UserCanister("Do it.")], **more)).id

    async def wait(
        self, run_id: str, *states: str, subject: str = "", after: int = 0
    ) -> RunSummary:
        """Wait until a run is in one of the states, after the event with the number ``after``."""
        async with asyncio.timeout(60):
            while True:
                summary = await self.runs.find(run_id, subject=subject)
                if summary.state in states and summary.sequence > after:
                    return summary
                await asyncio.sleep(0.01)

    def read_kinds(self, run_id: str) -> list[str]:
        """Return the kinds of all events."""
        return [each.event.type for each in self.store.open_log(run_id).read()]

    async def __aenter__(self) -> Premises:
        await self.host.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.host.close()
