"""Google's cloud on loopback: metadata server, token server, and files of credentials."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

PROJECT = "project-of-the-credentials"
MODEL_BODY = {
    "candidates": [
        {"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP"}
    ],
    "usageMetadata": {"promptTokenCount": 4, "candidatesTokenCount": 1, "totalTokenCount": 5},
}
MESSAGE_BODY = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [{"type": "text", "text": "Hi"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 4, "output_tokens": 1},
}


@attrs.define
class GoogleCloud:
    """State of the servers.

    Attributes:
        url: Address of all servers.
        lifetime: Seconds that a token is valid.
        revoked: Tokens that the models refuse.
        token_error: Answer of the token server in place of tokens: status and body.
        tokens: Number of tokens issued.
        grants: The forms of requests for tokens.
        asked: Path, headers and body of each request to a model.
    """

    url: str = ""
    lifetime: int = 3600
    revoked: set[str] = attrs.field(factory=set)
    token_error: tuple[int, dict[str, Any]] | None = None
    tokens: int = 0
    grants: list[dict[str, str]] = attrs.field(factory=list)
    asked: list[tuple[str, dict[str, str], Any]] = attrs.field(factory=list)

    def _issue(self) -> dict[str, Any]:
        self.tokens += 1
        token = f"ya29.token-number-{self.tokens}"
        return {"access_token": token, "expires_in": self.lifetime, "token_type": "Bearer"}

    async def answer_metadata(self, request: web.Request) -> web.Response:
        """Answer as the metadata server of a machine does."""
        headers = {"metadata-flavor": "Google"}
        assert request.headers.get("metadata-flavor") == "Google"
        path = request.path
        if path.endswith("/token"):
            await asyncio.sleep(0.05)  # so that others may ask at the same time
            return web.json_response(self._issue(), headers=headers)
        if path.endswith("/project/project-id"):
            return web.Response(text=PROJECT, headers=headers)
        if path.endswith("/universe-domain"):
            return web.Response(text="googleapis.com", headers=headers)
        if path.endswith("/default/"):
            account = {"email": "me@example.org", "scopes": ["x"], "aliases": ["default"]}
            return web.json_response(account, headers=headers)
        return web.Response(text="ok", headers=headers)

    async def grant(self, request: web.Request) -> web.Response:
        """Answer as the token server does."""
        self.grants.append({name: str(text) for name, text in (await request.post()).items()})
        if self.token_error is not None:
            status, body = self.token_error
            return web.json_response(body, status=status)
        return web.json_response(self._issue())

    async def converse(self, request: web.Request) -> web.Response:
        """Answer as a model does."""
        self.asked.append((request.path_qs, dict(request.headers), await request.json()))
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not token or token in self.revoked:
            error = {"code": 401, "status": "UNAUTHENTICATED", "message": f"Invalid {token}"}
            return web.json_response({"error": error}, status=401)
        is_claude = "anthropic" in request.path
        return web.json_response(MESSAGE_BODY if is_claude else MODEL_BODY)

    def write_service_account(self, path: Path) -> Path:
        """Write a file with the key of a service account."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        account = {
            "type": "service_account",
            "project_id": PROJECT,
            "private_key_id": "1",
            "private_key": pem.decode(),
            "client_email": "robot@example.org",
            "client_id": "1",
            "token_uri": f"{self.url}/token",
        }
        path.write_text(json.dumps(account))
        return path

    def write_user(self, path: Path) -> Path:
        """Write a file as ``gcloud auth application-default login`` does."""
        path.parent.mkdir(parents=True, exist_ok=True)
        user = {
            "type": "authorized_user",
            "client_id": "1",
            "client_secret": "secret-of-the-client",
            "refresh_token": "refresh-token-of-the-user",
            "quota_project_id": "payer",
            "token_uri": f"{self.url}/token",
        }
        path.write_text(json.dumps(user))
        return path


@asynccontextmanager
async def serve_google_cloud() -> AsyncIterator[GoogleCloud]:
    """Start the servers."""
    cloud = GoogleCloud()
    application = web.Application()
    application.router.add_get("/", cloud.answer_metadata)
    application.router.add_get("/computeMetadata/{path:.*}", cloud.answer_metadata)
    application.router.add_post("/token", cloud.grant)
    application.router.add_post("/{path:.*}", cloud.converse)
    runner = web.AppRunner(application, shutdown_timeout=0.05)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    cloud.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield cloud
    finally:
        await runner.cleanup()


def hide_credentials(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """Take away the credentials of whoever runs the tests."""
    for name in (
        "ANTHROPIC_VERTEX_PROJECT_ID",
        "CLOUDSDK_AUTH_ACCESS_TOKEN",
        "CLOUD_ML_REGION",
        "GCLOUD_PROJECT",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_LOCATION",
        "KUBERNETES_SERVICE_HOST",
        "K_SERVICE",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(directory / "gcloud"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")


def use_machine(monkeypatch: pytest.MonkeyPatch, cloud: GoogleCloud) -> None:
    """Let this machine have the cloud's metadata server."""
    host = cloud.url.removeprefix("http://")
    monkeypatch.delenv("NO_GCE_CHECK", raising=False)
    monkeypatch.setenv("GCE_METADATA_HOST", host)
    monkeypatch.setenv("GCE_METADATA_IP", host)
    monkeypatch.setattr("google.auth.compute_engine._metadata._GCE_METADATA_HOST", host)
