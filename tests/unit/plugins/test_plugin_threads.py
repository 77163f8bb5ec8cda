"""A plugin that several threads use for the first time at once is loaded once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import vibe_llms

SLOW_PLUGIN = """
import time
from vibe_llms.plugins import ModelAttributesSpecification, ProviderSpecification, hook

calls = []

class Provider:
    def __init__(self, context):
        self.context = context
    def produce_client(self):
        raise NotImplementedError

def note(word):
    calls.append(word)
    time.sleep(0.05)

def produce(context):
    note("factory")
    return Provider(context)

@hook
def survey_providers():
    note("survey_providers")
    return [ProviderSpecification("slow", "is slow", produce)]

@hook
def survey_model_attributes():
    note("survey_model_attributes")
    return []
"""

BARE_MANAGER = """
import sys, threading
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.plugins import CommandSpecification, PluginManager

sys.path.insert(0, ".")
tables = {"slow": {"module": "slow_plugin"}}
manager = PluginManager(configuration=load_configuration(command_line={"providers": tables}))
barrier, found = threading.Barrier(8), []

def use():
    barrier.wait()
    provider = manager.load_provider("slow")
    provider.context.produce_attributes()
    manager.survey_specifications(CommandSpecification)
    found.append(provider)

threads = [threading.Thread(target=use) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
import slow_plugin
print(len(found), len(set(found)), *sorted(slow_plugin.calls))
"""

TASKS = """
import asyncio
from vibe_llms import Model

async def converse():
    return await asyncio.gather(*[Model("scripted:echo").ask("hi") for _ in range(4)])

print(*[response.text for response in asyncio.run(converse())])
"""

THREADS = """
import threading
from vibe_llms import SyncModel

found = []
ask = lambda: found.append(SyncModel("scripted:echo").ask("hi").text)
threads = [threading.Thread(target=ask) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(*found)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "said"),
    [
        (BARE_MANAGER, "8 1 factory survey_model_attributes survey_providers"),
        (TASKS, "hi hi hi hi"),
        (THREADS, "hi hi hi hi"),
    ],
    ids=["manager", "tasks", "threads"],
)
def test_the_first_use_may_come_from_several_sides_at_once(
    program: str, said: str, tmp_path: Path
) -> None:
    """Tasks and threads which begin together get the same provider, which was made once."""
    (tmp_path / "slow_plugin.py").write_text(SLOW_PLUGIN, encoding="utf-8")

    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PYTHONPATH": str(Path(vibe_llms.__file__).parents[1])},
    )

    assert (run.stdout.strip(), run.stderr) == (said, "")
