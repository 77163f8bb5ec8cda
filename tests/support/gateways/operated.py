"""Gateway with keys and an operator's page, in front of simulators."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import attrs

from support.gateways.gateways import produce_application, serve
from support.gateways.key_holders import create_key
from vibe_llms.daemons.gateway.making import produce_service
from vibe_llms.daemons.keys.authorizer import KeyAuthorizer
from vibe_llms.daemons.service import Service

MODEL = "openai_conversations:gpt-5.5"


@attrs.define
class OperatedGateway:
    """The gateway.

    Attributes:
        url: Its address.
        keys: Folder of its keys.
        key: An operator's key.
        service: The service.
        session: Sends requests.
    """

    url: str
    keys: Path
    key: str
    service: Service
    session: aiohttp.ClientSession

    async def ask(
        self, method: str, path: str, body: object = None, *, key: str | None = None
    ) -> tuple[int, Any]:
        """Send a request with the operator's or another key; return the status and the body."""
        key = self.key if key is None else key
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        async with self.session.request(
            method, self.url + path, json=body, headers=headers
        ) as answer:
            return answer.status, await answer.json()

    async def converse(
        self, key: str, model: str = MODEL, headers: Mapping[str, str] | None = None, **more: Any
    ) -> tuple[int, bytes]:
        """Ask a model as a client; return the status and the body."""
        body = {"model": model, "messages": [{"role": "user", "content": "A sea?"}], **more}
        sent = {"Authorization": f"Bearer {key}", **(headers or {})}
        url = f"{self.url}/v1/chat/completions"
        async with self.session.post(url, json=body, headers=sent) as answer:
            return answer.status, await answer.read()


@asynccontextmanager
async def operate(
    folder: Path, upstream: str, *, tables: str = "", settings: str = "", **options: Any
) -> AsyncIterator[OperatedGateway]:
    """Serve a gateway with a page.

    Args:
        folder: Folder for all its data.
        upstream: Address of a simulator.
        tables: The gateway's file; by default it has none.
        settings: Further lines of each provider's table.
        options: Further arguments of :func:`produce_service`.
    """
    keys = folder / "keys"
    key = create_key(keys, "root", operator=True)
    if tables:
        options["file"] = folder / "gateway.toml"
        options["file"].write_text(tables)
    service = produce_service(
        produce_application(folder, upstream, settings=settings),
        authorizer=KeyAuthorizer(keys),
        has_page=True,
        **options,
    )
    async with serve(service) as url, aiohttp.ClientSession() as session:
        yield OperatedGateway(url=url, keys=keys, key=key, service=service, session=session)
