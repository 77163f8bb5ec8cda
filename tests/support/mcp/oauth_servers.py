"""MCP server with OAuth, and its authorization server, both in this process."""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import attrs
from aiohttp import ClientSession, web


@attrs.define(eq=False)
class OAuthServers:
    """Both servers; fields select their faults and count their requests."""

    origin: str = ""
    scope: str = "read"
    expires_in: int | None = 3600
    takes_refresh: bool = True
    token_error: dict[str, str] | None = None
    wrong_issuer: str | None = None
    authorization_servers: list[str] | None = None
    refusal: str = ""
    padding: int = 0
    answer_padding: int = 0
    challenge_padding: int = 0
    good_tokens: set[str] = attrs.field(factory=set)
    codes: dict[str, dict[str, str]] = attrs.field(factory=dict)
    asked: Counter[str] = attrs.field(factory=Counter)
    requests: list[dict[str, str]] = attrs.field(factory=list)
    numbers: Any = attrs.field(factory=lambda: itertools.count(1))

    @property
    def url(self) -> str:
        """Address of the MCP server."""
        return f"{self.origin}/mcp"

    def _challenge(self, status: int, **more: str) -> web.Response:
        parameters = {"resource_metadata": f"{self.origin}/metadata", "scope": self.scope, **more}
        text = ", ".join(f'{name}="{value}"' for name, value in parameters.items())
        headers = {"WWW-Authenticate": f"Bearer {text}"}
        return web.Response(status=status, headers=headers, text="x" * self.challenge_padding)

    async def serve(self, request: web.Request) -> web.Response:
        """Admit requests with a valid token; ``/mcp?wide`` requires a wider scope."""
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.asked["served" if token in self.good_tokens else "challenged"] += 1
        if token not in self.good_tokens:
            return self._challenge(401)
        if "wide" in request.query and "write" not in token:
            return self._challenge(403, error="insufficient_scope", scope="write")
        return web.Response(text=f"in with {token}{' ' * self.answer_padding}")

    async def describe_resource(self, request: web.Request) -> web.Response:
        self.asked["resource"] += 1
        servers = self.authorization_servers or [self.origin]
        return web.json_response({"resource": self.url, "authorization_servers": servers})

    async def describe_issuer(self, request: web.Request) -> web.Response:
        self.asked["issuer"] += 1
        return web.json_response(
            {
                "issuer": self.wrong_issuer or self.origin,
                "authorization_endpoint": f"{self.origin}/authorize",
                "token_endpoint": f"{self.origin}/elsewhere/token",
                "registration_endpoint": f"{self.origin}/register",
                "code_challenge_methods_supported": ["S256"],
                "padding": "x" * self.padding,
            }
        )

    async def register(self, request: web.Request) -> web.Response:
        self.asked["registered"] += 1
        fields = await request.json()
        number = next(self.numbers)
        return web.json_response(
            {
                "client_id": f"client-{number}",
                "client_secret": f"registered-secret-{number}",
                "token_endpoint_auth_method": "client_secret_post",
                "redirect_uris": fields["redirect_uris"],
            },
            status=201,
        )

    async def authorize(self, request: web.Request) -> web.Response:
        self.asked["authorized"] += 1
        query = dict(request.query)
        answer = {"state": query["state"], "iss": self.origin}
        if self.refusal:
            answer["error"] = self.refusal
        else:
            answer["code"] = f"code-{next(self.numbers)}"
            self.codes[answer["code"]] = query
        raise web.HTTPFound(f"{query['redirect_uri']}?{urlencode(answer)}")

    async def give_token(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.requests.append(form)
        self.asked[form["grant_type"]] += 1
        if self.token_error:
            return web.json_response(self.token_error, status=400)
        scope = self.scope
        if form["grant_type"] == "refresh_token" and not self.takes_refresh:
            return web.json_response({"error": "invalid_grant"}, status=400)
        if form["grant_type"] == "authorization_code":
            begun = self.codes.pop(form["code"])
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            assert begun["code_challenge"] == base64.urlsafe_b64encode(digest).decode().rstrip("=")
            assert begun["redirect_uri"] == form["redirect_uri"]
            assert begun["resource"] == form["resource"] == self.url
            scope = begun.get("scope", "")
        token = f"secret-token-{next(self.numbers)}-{scope.replace(' ', '-')}"
        self.good_tokens.add(token)
        answer = {
            "access_token": token,
            "token_type": "Bearer",
            "refresh_token": f"secret-refresh-{next(self.numbers)}",
            "scope": scope,
        }
        expiry = {} if self.expires_in is None else {"expires_in": self.expires_in}
        return web.json_response({**answer, **expiry})


@asynccontextmanager
async def run_oauth_servers() -> AsyncIterator[OAuthServers]:
    """Run both servers on a port of this machine."""
    servers = OAuthServers()
    app = web.Application()
    app.router.add_route("*", "/mcp", servers.serve)
    app.router.add_get("/metadata", servers.describe_resource)
    app.router.add_get("/.well-known/oauth-authorization-server", servers.describe_issuer)
    app.router.add_post("/register", servers.register)
    app.router.add_get("/authorize", servers.authorize)
    app.router.add_post("/elsewhere/token", servers.give_token)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        servers.origin = f"http://127.0.0.1:{port}"
        yield servers
    finally:
        await runner.cleanup()


@attrs.define(eq=False)
class AgreeingPerson:
    """Authorizer that consents and follows the redirect back, as a browser does."""

    seen: list[str] = attrs.field(factory=list)

    async def open(self, server: str, address: str) -> str | None:
        """Open the address, with all redirects."""
        self.seen.append(address)
        async with ClientSession() as session, session.get(address) as response:
            assert response.status == 200, await response.text()
        return None
