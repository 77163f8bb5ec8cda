"""A program that closes nothing ends quietly: scripts and notebooks are written like that."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.quality.properties import sample
from support.screens.command_line import produce_environment
from support.vendors import embedded
from vibe_llms.testing.simulator import SynchronousSimulator

HEADER = """
import asyncio
from vibe_llms import *

@invocable(effect="pure")
def weather(city: str) -> str:
    "Tells the weather in a city."
    return f"It rains in {city}."
"""

PROGRAMS = {
    "a model": "SyncModel(ADDRESS).ask('Hi', controls=SHORT)",
    "a model without a name": "model = SyncModel(ADDRESS); model.ask('Hi', controls=SHORT)",
    "an engine": "SyncEngine(ADDRESS, tools=[weather], controls=SHORT).answer('Hi')",
    "a channel": "SyncChannel(ADDRESS, controls=SHORT).ask('Hi')",
    "a stream that was begun": (
        "context = SyncModel(ADDRESS).stream('Hi', controls=LONG)\n"
        "stream = context.__enter__()\n"
        "next(iter(stream))"
    ),
    "a stream in use at the end": (
        "with SyncModel(ADDRESS).stream('Hi', controls=LONG) as stream:\n"
        "    for event in stream:\n"
        "        raise SystemExit(0)"
    ),
    "an asynchronous model": "asyncio.run(Model(ADDRESS).ask('Hi', controls=SHORT))",
    "an asynchronous model, twice": (
        "model = Model(ADDRESS)\n"
        "asyncio.run(model.ask('Hi', controls=SHORT))\n"
        "asyncio.run(model.ask('Hi', controls=SHORT))"
    ),
    "an asynchronous engine": (
        "asyncio.run(Engine(ADDRESS, [weather], controls=SHORT).answer('Hi'))"
    ),
    "an asynchronous stream that was begun": (
        "async def main():\n"
        "    async with Model(ADDRESS).stream('Hi', controls=LONG) as stream:\n"
        "        async for event in stream:\n"
        "            return\n"
        "asyncio.run(main())"
    ),
    "a thread that is still busy": (
        "import threading\n"
        "begun = threading.Event()\n"
        "def work():\n"
        "    with SyncModel(ADDRESS).stream('Hi', controls=LONG) as stream:\n"
        "        next(iter(stream))\n"
        "        begun.set()\n"
        "        stream.response()\n"
        "threading.Thread(target=work).start()\n"
        "begun.wait()"
    ),
}


@pytest.fixture(scope="module")
def simulator() -> Iterator[SynchronousSimulator]:
    with SynchronousSimulator() as server:
        yield server


def run(home: Path, program: str, address: str, **variables: str) -> str:
    """Runs a program in development mode; returns what it complains of."""
    settings = f"ADDRESS = {address!r}\nSHORT = {{'max_tokens': 4}}\nLONG = {{'max_tokens': 50}}\n"
    outcome = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", HEADER + settings + program],
        env=produce_environment(home, **variables),
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    told = [line for line in outcome.stderr.splitlines() if not line.startswith("Executing <")]
    return "\n".join([*([f"code {outcome.returncode}"] if outcome.returncode else []), *told])


@pytest.mark.slow
@pytest.mark.samples
@pytest.mark.parametrize("name", sample(PROGRAMS, turn=1))
def test_what_is_left_open_over_a_network_is_closed_in_silence(
    tmp_path: Path, simulator: SynchronousSimulator, name: str
) -> None:
    """A client of a vendor leaves no traceback and no warning behind, closed or not."""
    (tmp_path / "config.toml").write_text(
        textwrap.dedent(f"""
            [providers.anthropic]
            base_url = "{simulator.url}"
            api_key = "sk-test"
            """)
    )

    complaints = run(
        tmp_path,
        PROGRAMS[name],
        "anthropic:claude-sonnet-4-6",
        VIBE_LLMS_CONFIG=str(tmp_path / "config.toml"),
    )

    assert complaints == ""


@pytest.mark.slow
@pytest.mark.weights
@pytest.mark.samples
@pytest.mark.parametrize("name", sample(PROGRAMS, turn=3))
def test_a_model_that_is_left_loaded_is_freed_in_silence(tmp_path: Path, name: str) -> None:
    """The embedded model leaves no traceback behind, and the process ends."""
    embedded.lend_weights(tmp_path / ".local/share/vibe-llms")

    assert run(tmp_path, PROGRAMS[name], "local:smollm2") == ""
