"""A real llama.cpp server behind the gateway, asked by the official clients of each protocol."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.gateways.gateways import produce_application, serve_gateway
from support.gateways.judging import open_judge
from support.quality.properties import sample
from support.vendors.llama_servers import serve_weights
from vibe_llms.daemons.records import CallRecord

KEY = "canary"
MODEL = "claude-sonnet-4-5"
"""The server takes any name; this one is known to take what is asked."""

CLIENTS = {
    "chat": "openai_conversations",
    "responses": "openai_responses",
    "messages": "anthropic",
}
"""From a client to the provider that speaks its protocol; llama.cpp speaks all three."""

pytestmark = [
    pytest.mark.weights,
    pytest.mark.skipif(sys.platform == "win32", reason="the program waits for a signal"),
]


@pytest.fixture(scope="module")
def upstream(weights: Path) -> Iterator[str]:
    """Where the server listens."""
    with serve_weights(weights, KEY) as address:
        yield address


# Its streams of Responses have no content_index, without which OpenAI's library does not read them:
# what is carried is what the upstream said.
TRIED = [
    (client, provider, stream)
    for client in CLIENTS
    for provider in CLIENTS.values()
    for stream in (False, True)
    if (client, provider, stream) != ("responses", "openai_responses", True)
]


@pytest.mark.slow
@pytest.mark.samples  # each fourth has every client, every provider, and what is carried, too
@pytest.mark.parametrize(("client", "provider", "stream"), sample(TRIED))
async def test_a_real_model_answers(
    upstream: str, tmp_path: Path, client: str, provider: str, stream: bool
) -> None:
    records: list[CallRecord] = []
    application = produce_application(tmp_path, upstream, key=KEY)
    async with (
        serve_gateway(application, records) as address,
        open_judge(client, address) as judge,
    ):
        heard = await judge.ask(f"{provider}:{MODEL}", stream=stream)
    assert heard.text.strip()
    assert heard.output_tokens
    [record] = records
    assert record.way == ("passthrough" if CLIENTS[client] == provider else "translate")
    assert record.usage is not None
    assert record.usage.total_output_tokens == heard.output_tokens
