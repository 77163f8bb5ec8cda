"""Each row of the table of compatible services passes the provider contract, against the simulator.

Rows differ only in data, so two of them are tested by default, and all others with ``-m slow``. The
address, the key and one turn with tools are tested for every row.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.vendors.remoting import Counterpart, answer_json, produce_context
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import ResultCanister, UserCanister
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request
from vibe_llms.providers.openai_compatible import produce_provider
from vibe_llms.providers.openai_compatible.kinds import CompatibleService, read_services
from vibe_llms.testing.contracts import SimulatedContract
from vibe_llms.testing.simulator import SynchronousSimulator

KINDS = read_services()
TRIED_ALREADY = {"deepseek", "groq", "llamacpp", "mistral", "openrouter", "perplexity", "xai"}
"""Beside this module, with quirks that the simulator has by their names."""

WITHOUT_TOOLS = {"perplexity"}
DEFAULT = {"together", "zai"}
LOOK = InvocableDescription(name="look", description="Looks.", schema={"type": "object"})


def _define(kind: CompatibleService) -> type[SimulatedContract]:
    words = {
        "__doc__": f"{kind.name}: {kind.summary}.",
        "module": "vibe_llms.providers.openai_compatible",
        "name": kind.name,
        "path": "/v1",
        "model": "any",
        "simulate": "reasoning_content" if kind.quirks.reasoning_field else "",
        "reasons": kind.quirks.reasoning_field is not None,
    }
    made = type(f"Test{kind.name.capitalize()}", (SimulatedContract,), words)
    return made if kind.name in DEFAULT else pytest.mark.slow(made)


for _kind in KINDS.values():
    if _kind.name not in TRIED_ALREADY:
        globals()[f"Test{_kind.name.capitalize()}"] = _define(_kind)


@pytest.mark.parametrize("name", sorted(KINDS))
async def test_a_service_is_called_at_its_address_with_its_own_key(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address and the variable are those of its row; no other key is sent."""
    kind = KINDS[name]
    for other in KINDS.values():
        for variable in other.key_variables:
            monkeypatch.setenv(variable, f"key-of-{variable}")
    monkeypatch.setenv("CLOUDFLARE_ACCOUNT_ID", "account")
    choice = '{"index": 0, "message": {"content": "Yes."}, "finish_reason": "stop"}'
    body = f'{{"id": "1", "model": "m", "choices": [{choice}]}}'.encode()
    counterpart = Counterpart([answer_json(body)])
    provider: Any = produce_provider(produce_context(name, tmp_path, limits=Limits(attempts=1)))
    provider.use_transport(counterpart.transport)
    model = await provider.produce_client().access_model("m")

    await model.converse(Request(canisters=[UserCanister("Hi")]), stream=False)

    (sent,) = counterpart.requests
    base_url = kind.base_url.replace("{CLOUDFLARE_ACCOUNT_ID}", "account")
    assert sent.url == f"{base_url}/chat/completions"
    key = sent.headers.get("authorization", "")
    shown = key if isinstance(key, str) else key.reveal()
    expected = f"Bearer key-of-{kind.key_variables[0]}" if kind.key_variables else ""
    assert shown == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(KINDS) - TRIED_ALREADY - WITHOUT_TOOLS))
def test_a_service_supports_a_turn_with_tools(name: str, tmp_path: Path) -> None:
    """Streamed and complete: a call arrives, its result is sent, and nothing is lost."""

    async def converse(stream: bool) -> tuple[str, tuple[object, ...]]:
        settings = {"base_url": f"{simulator.url}/v1", "api_key": "k"}
        context = produce_context(name, tmp_path, limits=Limits(attempts=1), **settings)
        client: Any = produce_provider(context).produce_client()
        model = await client.access_model("any")
        canisters = (UserCanister("Call look, please."),)
        first = await model.converse(
            Request(canisters=canisters, invocables=(LOOK,)), stream=stream
        )
        results = [
            ResultCanister("seen", invocation_id=each.invocation_id, name=each.name)
            for each in first.canisters
            if hasattr(each, "invocation_id")
        ]
        request = Request(canisters=(*first.conversation, *results), invocables=(LOOK,))
        second = await model.converse(request, stream=stream)
        await client.close()
        assert results
        return second.text, (*first.losses, *second.losses)

    with SynchronousSimulator() as simulator:
        whole, streamed = asyncio.run(converse(False)), asyncio.run(converse(True))

    assert whole == streamed
    assert whole[0]
    assert whole[1] == ()
