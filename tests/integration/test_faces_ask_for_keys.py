"""Requests without a valid key are refused as HTTP and each protocol want it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.daemons.run_daemons import serving
from vibe_llms.exceptions import AccessError, ProviderFault
from vibe_llms.plugins.specification.daemons import Arrival

FAULTS = {
    "": (ProviderFault.AUTHENTICATION, 401, "UNAUTHENTICATED"),
    "wrong": (ProviderFault.AUTHENTICATION, 401, "UNAUTHENTICATED"),
    "revoked": (ProviderFault.PERMISSION, 403, "PERMISSION_DENIED"),
    "spent": (ProviderFault.QUOTA, 429, "RESOURCE_EXHAUSTED"),
}


class Refuser:
    """Authorizer that refuses every key, each for a reason of its own."""

    async def authorize(self, arrival: Arrival) -> Any:
        raise AccessError(fault=FAULTS[arrival.credential][0], detail="No.")

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("path", ["/a2a", "/ag-ui", "/ai-sdk", "/runs"])
async def test_a_refused_request_has_a_status_and_only_an_unknown_key_a_challenge(
    tmp_path: Path, path: str
) -> None:
    async with serving(tmp_path, authorizer=Refuser()) as daemon:
        for key, (_, status, reason) in FAULTS.items():
            headers = {"authorization": f"Bearer {key}"} if key else {}
            async with daemon.session.post(daemon.url + path, json={}, headers=headers) as answer:
                told = await answer.json()
            assert answer.status == status
            challenge = "Bearer" if status == 401 else None
            assert answer.headers.get("WWW-Authenticate") == challenge
            assert "No." in told["error"]["message"]
            if path == "/a2a":
                (info,) = told["error"]["data"]
                assert (told["jsonrpc"], told["id"]) == ("2.0", None)
                assert (told["error"]["code"], info["reason"]) == (-32000, reason)


@pytest.mark.clients
async def test_the_official_client_of_a2a_tells_a_missing_key_from_an_error(tmp_path: Path) -> None:
    import httpx
    from a2a.client.client import ClientConfig
    from a2a.client.client_factory import create_client
    from a2a.client.errors import A2AClientError
    from a2a.types import a2a_pb2

    async with serving(tmp_path, authorizer=Refuser()) as daemon, httpx.AsyncClient() as http:
        client = await create_client(daemon.url, ClientConfig(httpx_client=http))
        with pytest.raises(A2AClientError, match="401") as caught:
            await client.get_task(a2a_pb2.GetTaskRequest(id="x.1"))
        cause = caught.value.__cause__
        assert isinstance(cause, httpx.HTTPStatusError)
        assert cause.response.headers["WWW-Authenticate"] == "Bearer"
