"""Cost of a flow's transition: ours, langgraph's and apache-burr's, beside a plain loop.

Two nodes that do nothing, gone round 1,000 times; what happens is recorded: with us each
transition is an event of the log, with langgraph a step of the stream, with burr an entry of its
tracker's hooks. Then the same with a journal: ours in a directory, langgraph's in SQLite. CPU
time of this process, the best of several runs.

The others are no dependency. This makes an environment for them, outside of the project, and runs
it there::

    python -m venv /tmp/flows
    /tmp/flows/bin/pip install -e . langgraph langgraph-checkpoint-sqlite apache-burr
    /tmp/flows/bin/python tests/benchmarks/run.py flows

Whoever is not installed is left out.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import logging
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict

from vibe_llms.conversations import DirectoryStore
from vibe_llms.events.flow import NodeFinishedEvent
from vibe_llms.flows import AdapterConfig, UniversalAdapter

TRANSITIONS = 1000
REPETITIONS = 3
GOALS = (("langgraph", 1 / 15), ("apache-burr", 1 / 4))
JOURNAL_GOAL = 1 / 3

_TASK = {
    "goal": {"description": "Go round."},
    "resource_llm": {"provider": "scripted", "model": "echo"},
    "prompts": [],
    "resource_registry": {"entries": []},
    "flow_diagram": {
        "mermaid": f"graph TD\n START --> LOOP([x{TRANSITIONS // 2}])\n"
        " LOOP --> STEP[nothing] --> LOOP\n LOOP --> END"
    },
}


class _State(TypedDict):
    count: int


def _is_there(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


async def _go_plainly() -> int:
    """The same in Python: two functions, a counter, and a list of what happened."""
    events: list[tuple[str, int]] = []

    def first(count: int) -> int:
        return count + 1

    def second(count: int) -> int:
        return count + 1

    count = 0
    while count < TRANSITIONS:
        count = first(count)
        events.append(("first", count))
        count = second(count)
        events.append(("second", count))
    return len(events)


async def _run_ours(store: DirectoryStore | None) -> int:
    heard: list[object] = []
    adapter = UniversalAdapter(
        AdapterConfig(max_iterations=10 * TRANSITIONS), store=store, listener=heard.append
    )
    result = await adapter.execute(_TASK)
    if not result.success:
        raise RuntimeError(str(result.errors))
    return sum(isinstance(event, NodeFinishedEvent) for event in heard)


async def _run_langgraph(saver: Any) -> int:
    from langgraph.graph import END, START, StateGraph

    def step(state: _State) -> _State:
        return {"count": state["count"] + 1}

    graph = StateGraph(_State)
    graph.add_node("first", step)
    graph.add_node("second", step)
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    graph.add_conditional_edges(
        "second", lambda state: END if state["count"] >= TRANSITIONS else "first"
    )
    compiled = graph.compile(checkpointer=saver)
    heard = []
    config: Any = {"recursion_limit": 10 * TRANSITIONS, "configurable": {"thread_id": "one"}}
    async for each in compiled.astream({"count": 0}, config):
        heard.append(each)
    return len(heard)


async def _run_burr() -> int:
    from burr.core import ApplicationBuilder, State, action, expr
    from burr.lifecycle import PostRunStepHook

    @action(reads=["count"], writes=["count"])
    def first(state: State) -> State:
        return state.update(count=state["count"] + 1)

    @action(reads=["count"], writes=["count"])
    def second(state: State) -> State:
        return state.update(count=state["count"] + 1)

    @action(reads=["count"], writes=[])
    def end(state: State) -> State:
        return state

    heard = []

    class Recorder(PostRunStepHook):  # type: ignore[misc]  # without types where it is missing
        def post_run_step(self, *, action: Any, state: Any, **others: Any) -> None:
            heard.append((action.name, state["count"]))

    application = (
        ApplicationBuilder()
        .with_actions(first, second, end)
        .with_transitions(
            ("first", "second"),
            ("second", "end", expr(f"count >= {TRANSITIONS}")),
            ("second", "first"),
        )
        .with_state(count=0)
        .with_entrypoint("first")
        .with_hooks(Recorder())
        .build()
    )
    await application.arun(halt_after=["end"])
    return len(heard)


@contextmanager
def _open_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


async def _run_ours_kept() -> int:
    with _open_folder() as folder:
        return await _run_ours(DirectoryStore(folder))


async def _run_langgraph_kept() -> int:
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    with _open_folder() as folder:
        async with AsyncSqliteSaver.from_conn_string(str(folder / "kept.sqlite")) as saver:
            return await _run_langgraph(saver)


async def _measure(name: str, run: Callable[[], Awaitable[int]], floor: float = 0.0) -> float:
    """Prints a row; returns the microseconds of CPU that a transition costs."""
    await run()
    best = float("inf")
    for _ in range(REPETITIONS):
        gc.collect()
        begun = time.process_time()
        count = await run()
        best = min(best, (time.process_time() - begun) / TRANSITIONS * 1e6)
        if count < TRANSITIONS:
            raise RuntimeError(f"{name} gave up after {count} transitions.")
    times = f", {best / floor:,.0f} times a plain loop" if floor else ""
    print(f"{name}: {best:.1f} us a transition{times}", flush=True)
    return best


def _judge(what: str, goal: float, ours: float, theirs: float) -> None:
    share, verdict = ours / theirs, "yes" if ours / theirs <= goal else "NO"
    print(f"asked: at most 1/{1 / goal:.0f} of {what}: 1/{1 / share:.1f}, {verdict}", flush=True)


async def _main() -> None:
    floor = await _measure("a plain loop", _go_plainly)
    ours = await _measure("vibe-llms", lambda: _run_ours(None), floor)
    kept = await _measure("vibe-llms, kept in a directory", _run_ours_kept, floor)
    theirs: dict[str, float] = {}
    rows: list[tuple[str, str, Callable[[], Awaitable[int]]]] = [
        ("langgraph", "langgraph", lambda: _run_langgraph(None)),
        ("apache-burr", "burr", _run_burr),
        ("langgraph, kept in SQLite", "langgraph.checkpoint.sqlite", _run_langgraph_kept),
    ]
    for name, package, run in rows:
        if _is_there(package):
            theirs[name] = await _measure(name, run, floor)
        else:
            print(f"{name}: not installed", flush=True)
    for name, goal in GOALS:
        if name in theirs:
            _judge(name, goal, ours, theirs[name])
    name = "langgraph, kept in SQLite"
    if name in theirs:
        _judge(name, JOURNAL_GOAL, kept, theirs[name])


def main() -> None:
    """Prints the table."""
    logging.disable(logging.WARNING)
    asyncio.run(_main())


if __name__ == "__main__":
    main()
