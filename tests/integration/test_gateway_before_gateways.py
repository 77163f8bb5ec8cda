"""Gateways behind gateways: what the last one knows of a model holds before the first one, too."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest

from support.gateways.accounts import Account
from support.gateways.gateways import produce_application, serve_gateway, wait_until
from vibe_llms.testing.simulator import Say, Simulator

ALIASES = 'quick = "anthropic:claude-sonnet-5"\nslow = "openai_responses:gpt-5.5"'


@pytest.mark.slow
@pytest.mark.parametrize("between", [0, 1, 2])
@pytest.mark.parametrize("name", ["anthropic:claude-sonnet-5", "quick", "slow"])
async def test_prices_come_over(tmp_path: Path, name: str, between: int) -> None:
    account = Account()
    async with AsyncExitStack() as stack:
        simulator = await stack.enter_async_context(Simulator())
        simulator.enqueue(Say("The North Sea."))
        far = produce_application(tmp_path, simulator.url, aliases=ALIASES)
        url = await stack.enter_async_context(serve_gateway(far, authorizer=account))
        for index in range(between):
            folder = tmp_path / str(index)
            folder.mkdir()
            table = {"providers.remote": f'base_url = "{url}"'}
            near = produce_application(folder, "http://127.0.0.1:9", **table)
            url = await stack.enter_async_context(serve_gateway(near, authorizer=account))
            name = f"remote:{name}"
        session = await stack.enter_async_context(aiohttp.ClientSession())
        body = {"model": name, "messages": [{"role": "user", "content": "Name a sea."}]}
        async with session.post(f"{url}/v1/chat/completions", json=body) as told:
            assert told.status == 200, await told.text()
        await wait_until(lambda: len(account.used) == between + 1)
    [(usage, cents)] = set(account.used)  # each of them knows the same
    assert usage is not None
    assert usage.output_tokens
    assert cents is not None
    assert cents > 0
    [most] = {each.cents is not None for each in account.demands}
    assert most
