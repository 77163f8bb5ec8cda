"""A call never pays for serving."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import asyncio, sys
from vibe_llms import Application, Model
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.testing.simulator import Simulator


async def ask(address, path):
    provider, _, _ = address.partition(":")
    async with Simulator() as simulator:
        settings = {"base_url": simulator.url + path, "api_key": "x"}
        application = Application.load(command_line={"providers": {provider: settings}})
        async with Model(address, application=application) as model:
            first = await model.ask("Hi.")
            said = (*first.request.canisters, *first.canisters, UserCanister("And?"))
            async with model.stream(said) as stream:
                async for _ in stream:
                    pass


asyncio.run(ask(*sys.argv[1:]))
dialects = sorted(name for name in sys.modules if name.startswith("vibe_llms.dialects."))
print(*dialects)
"""


@pytest.mark.parametrize(
    ("protocol", "address", "path"),
    [
        ("chat_completions", "openai_conversations:gpt-5.1", "/v1"),
        ("generate_content", "google:gemini-2.5-flash", ""),
        ("interactions", "google_interactions:gemini-2.5-flash", ""),
        ("messages", "anthropic:claude-sonnet-4-6", ""),
        ("ollama_chat", "ollama:llama3", ""),
        ("responses", "openai_responses:gpt-5.1", "/v1"),
    ],
)
def test_a_call_imports_no_module_of_serving(protocol: str, address: str, path: str) -> None:
    """Whole or streamed, and where it goes on with what was said."""
    outcome = subprocess.run(
        [sys.executable, "-c", PROGRAM, address, path],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "sources")},
        check=False,
    )

    assert not outcome.returncode, outcome.stderr
    imported = outcome.stdout.split()
    assert f"vibe_llms.dialects.{protocol}.calling.decoder" in imported
    assert not [name for name in imported if "serving" in name]
