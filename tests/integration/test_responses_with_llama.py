"""Real answers by the Responses protocol, from llama.cpp's own server on loopback."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from remoting import produce_context
from vibe_llms.events.stream import ContentDeltaEvent, ResponseStartedEvent
from vibe_llms.messages.canisters import SupervisorCanister, UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.providers.openai_responses import produce_provider
from vibe_llms.providers.remote import RemoteModel

pytestmark = pytest.mark.weights

PROGRAM = """
import signal, sys
import xllamacpp
parameters = xllamacpp.CommonParams()
parameters.model.path = sys.argv[1]
parameters.port, parameters.n_ctx, parameters.n_parallel, parameters.ui = 0, 512, 1, False
server = xllamacpp.Server(parameters)
print(server.listening_address, flush=True)
signal.pause()
"""
REQUEST = Request(
    canisters=[SupervisorCanister("Be brief."), UserCanister("Say hello.")],
    controls={"max_tokens": 6, "temperature": 0},
)


@pytest.fixture(scope="module")
def address(weights: Path) -> Iterator[str]:
    """Where a server with real weights listens."""
    command = [sys.executable, "-c", PROGRAM, str(weights)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            wait_for(f"{address}/health")
            yield address
        finally:
            process.kill()


def wait_for(url: str) -> None:
    """Waits until a server answers that it is well."""
    for _ in range(600):
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(url)


async def access_model(address: str, directory: Path) -> RemoteModel:
    """Returns the model that the server has."""
    context = produce_context(
        "openai_responses", directory, base_url=f"{address}/v1", api_key="none"
    )
    client = produce_provider(context).produce_client()
    model = await client.access_model("smollm2")
    assert isinstance(model, RemoteModel)
    return model


async def test_a_real_server_answers_bit_by_bit_and_whole(address: str, tmp_path: Path) -> None:
    """It names no places in its stream, and says more beside its response: both are read."""
    model = await access_model(address, tmp_path)
    async with model.stream(REQUEST) as stream:
        events = [event async for event in stream]
        streamed = await stream.response()
    texts = [event.text for event in events if isinstance(event, ContentDeltaEvent)]
    assert isinstance(events[0], ResponseStartedEvent)
    assert len(texts) > 1
    assert "".join(texts) == streamed.text
    assert streamed.metadata.native is not None
    assert "timings" in streamed.metadata.native.data
    whole = await model.converse(REQUEST, stream=False)
    assert whole.text
    assert whole.metadata.usage is not None
    assert whole.metadata.usage.total_output_tokens == 6
    count = await model.tokenizer.count_request(REQUEST, model.descriptor)
    assert count.tokens == whole.metadata.usage.total_input_tokens
    await model._client.close()
