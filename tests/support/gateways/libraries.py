"""Official client libraries that are connected with a gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anthropic
import openai

from support.gateways.gateway_files import RoutedGateway


@asynccontextmanager
async def reach_openai(routed: RoutedGateway, key: str = "x") -> AsyncIterator[openai.AsyncOpenAI]:
    """Yield OpenAI's client of a gateway that runs."""
    address = f"{routed.address}/v1"
    async with openai.AsyncOpenAI(base_url=address, api_key=key, max_retries=0) as client:
        yield client


@asynccontextmanager
async def reach_anthropic(routed: RoutedGateway) -> AsyncIterator[anthropic.AsyncAnthropic]:
    """Yield Anthropic's client of a gateway that runs."""
    client = anthropic.AsyncAnthropic(base_url=routed.address, api_key="x", max_retries=0)
    async with client:
        yield client
