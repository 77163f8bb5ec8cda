"""What the official package of MCP tells OpenTelemetry of a call stands below the call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, json
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

from support.runs.acting import invoke, say, script
from support.runs.approvers import AllowAll
from support.mcp.mcp_servers import describe_server
from vibe_llms import Engine
from vibe_llms.invocables.mcp import produce_mcp_ensemble
from vibe_llms.telemetry.opentelemetry import OpenTelemetryObserver

async def main():
    model = script([invoke("look", "a", place="x"), invoke("look", "b", place="y")], [say("Yes.")])
    tools = [produce_mcp_ensemble(describe_server())]
    engine = Engine(model, tools, approver=AllowAll(), listener=OpenTelemetryObserver())
    await engine.answer("Well?")

asyncio.run(main())
spans = exporter.get_finished_spans()
names = {span.context.span_id: span.name for span in spans}
parents = [(span.name, names.get(span.parent.span_id) if span.parent else None) for span in spans]
print(json.dumps(parents))
"""


@pytest.mark.slow
def test_a_call_over_mcp_stands_below_its_execution() -> None:
    """The provider is one for the whole process, as programs have it; hence another process."""
    tests = Path(__file__).parents[1]
    places = os.pathsep.join([str(tests), os.environ.get("PYTHONPATH", "")])
    outcome = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": places},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    parents = [tuple(pair) for pair in json.loads(outcome.stdout)]
    assert parents.count(("MCP send tools/call look", "execute_tool look")) == 2
    assert parents.count(("execute_tool look", "invoke_agent")) == 2
