"""Replay of the runs that ``vibe runs keep`` has saved as tests."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_llms.conversations.stores.directory import DirectoryStore
from vibe_llms.runs.replaying import Replay, Variant, replay_run

if TYPE_CHECKING:
    from vibe_llms.instruments.engines import Engine


def check_run(
    folder: Path | str,
    identity: str,
    *,
    engine: Engine | None = None,
    task: Path | str | None = None,
) -> None:
    """Replay a saved run, without asking a model or executing tools.

    Args:
        folder: The folder of the saved run.
        identity: The id of the run's conversation.
        engine: The program's current engine, whose model, tools and settings must equal those of
            the run.
        task: The current task of a flow, which must make the same visits.

    Raises:
        AssertionError: A step differs; names the step and the difference.
    """
    replayed = asyncio.run(replay_saved(DirectoryStore(folder), identity, engine, task))
    if (step := replayed.difference) is not None:
        raise AssertionError(f"event {step.sequence}, {step.step} {step.detail}: {step.difference}")


async def replay_saved(
    store: DirectoryStore, identity: str, engine: Engine | None, task: Path | str | None
) -> Replay:
    """Replay a run of a conversation or of a flow."""
    from vibe_llms.runs.surveying import read_summary

    if read_summary(store, identity).kind == "flow":
        from vibe_llms.flows.flow_replay import replay_flow_run
        from vibe_llms.flows.task_reading import examine_task

        return await replay_flow_run(store, identity, None if task is None else examine_task(task))
    return await replay_run(store, identity, await _read_variant(engine))


async def _read_variant(engine: Engine | None) -> Variant:
    if engine is None:
        return Variant()
    from vibe_llms.engine.patterns import digest_pattern

    model_call = await engine.produce_model_call()
    async with engine.access_registry() as registry:
        pattern = digest_pattern(model_call.fields, registry.describe())
    return Variant(model=model_call.address, pattern=pattern)
