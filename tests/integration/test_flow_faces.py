"""How tasks are run from programs: what these see, and where they may run from."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.flows.flow_tasks import compose_task
from vibe_llms.conversations import MemoryStore
from vibe_llms.flows import AdapterConfig, UniversalAdapter, execute_task, run_task

TASK = compose_task("START --> P0 --> P1 --> END", "{{name}}", "{{response:P0}} again")


@pytest.mark.slow
def test_001_debug_mode_shows_what_happens_to_a_script_that_says_nothing_of_logging() -> None:
    """On standard error, a line for each thing, however much was said."""
    script = f"""
    from vibe_llms.flows import AdapterConfig, run_task
    task = {TASK!r}
    for debug_mode in (False, True, True):
        config = AdapterConfig(debug_mode=debug_mode)
        print(run_task(task, config, variables={{"name": "much " * 100_000}}).success)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    )
    lines = done.stderr.splitlines()
    assert done.stdout.split() == ["True"] * 3
    assert len(lines) == 2 * 8, done.stderr[:2000]  # the middle two visits begin and end
    assert all("vibe_llms.flows" in line and len(line) < 400 for line in lines)
    assert any("P0 → P1: 'much much" in line for line in lines)


def test_a_result_prints_what_came_of_it() -> None:
    """On one line: what was said, or why not."""
    result = run_task(TASK, variables={"name": "long\n" * 100})
    assert repr(result).startswith("AdapterResult(success=True, final_response='long")
    assert "\n" not in repr(result)
    refused = run_task(TASK)
    assert repr(refused).startswith("AdapterResult(reason='refused', errors='")


def test_variables_that_are_no_data_are_refused_before_anything_is_asked() -> None:
    """They go into the log, and into prompts."""
    for store in (None, MemoryStore()):
        result = run_task(TASK, variables={"name": object()}, store=store)  # type: ignore[dict-item]
        assert (result.reason, result.path) == ("refused", ())
        assert "JSON" in result.errors[0]


def test_a_config_of_another_kind_is_named() -> None:
    """As variables in its place are."""
    with pytest.raises(TypeError, match="must be an AdapterConfig, not dict"):
        run_task(TASK, {"name": "x"})  # type: ignore[arg-type]


@pytest.mark.slow
def test_one_adapter_runs_many_tasks_at_once() -> None:
    """Each with its own variables, and in one store."""
    store = MemoryStore()
    adapter = UniversalAdapter(AdapterConfig(max_iterations=50), store=store)

    async def run_all() -> list[str]:
        runs = (adapter.execute(TASK, {"name": f"n{number}"}) for number in range(40))
        return [each.final_response for each in await asyncio.gather(*runs)]

    assert asyncio.run(run_all()) == [f"n{number} again" for number in range(40)]
    assert len(list(store.survey())) == 120


def test_tasks_run_from_threads_and_beneath_a_running_loop() -> None:
    """The synchronous face works anywhere."""
    with ThreadPoolExecutor(8) as pool:
        runs = [pool.submit(run_task, TASK, variables={"name": f"n{each}"}) for each in range(16)]
        said = [each.result().final_response for each in runs]
    assert said == [f"n{each} again" for each in range(16)]

    async def run_beneath() -> tuple[str, str]:
        beside = asyncio.create_task(execute_task(TASK, variables={"name": "beside"}))
        return run_task(TASK, variables={"name": "beneath"}).final_response, (
            await beside
        ).final_response

    assert asyncio.run(run_beneath()) == ("beneath again", "beside again")
