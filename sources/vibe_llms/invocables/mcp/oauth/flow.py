"""OAuth for the requests to one MCP server: the official package's flow, with limits.

The package implements the protocols: discovery, registration, proof keys, resource indicators, more
scope. This module limits how often a person is asked and keeps secrets out of logs; grants outlive
the process; and requests do not wait for each other (decision 0016). Imported only when a
connection is made: it needs the package.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from pydantic import AnyUrl

from vibe_llms.exceptions import EnsembleError
from vibe_llms.invocables.mcp.oauth.errors import (
    explain,
    is_challenge,
    read_answer,
    receive,
    redact,
)
from vibe_llms.invocables.mcp.oauth.loopback import Loopback
from vibe_llms.invocables.mcp.oauth.settings import GrantType, OAuthAuthorizer, OAuthSettings
from vibe_llms.invocables.mcp.oauth.token_storage import GrantFile, TokenStorage
from vibe_llms.invocables.mcp.pausable_timeout import PausableTimeout

AUTHORIZATIONS_LIMIT: Final = 5
"""How often a person is asked for one server, per process."""

_LOOPBACKS: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class Authorization(httpx2.Auth):
    """Authenticates the requests to one server.

    Args:
        name: The user's name of the server.
        url: Its address.
        settings: Preset settings, if any.
        directory: The directory of grants; ``None`` to keep them in memory only.
        authorizer: Sends a person to the browser, if given.
        timeout: Paused while a person is asked.
    """

    def __init__(
        self,
        name: str,
        url: str,
        settings: OAuthSettings | None = None,
        *,
        directory: Path | None = None,
        authorizer: OAuthAuthorizer | None = None,
        timeout: PausableTimeout | None = None,
    ) -> None:
        self.name = name
        self.timeout = timeout or PausableTimeout()
        self._url = httpx2.URL(url)
        self._settings = settings = settings or OAuthSettings()
        self._authorizer = authorizer
        file = None if directory is None else GrantFile(directory, url, settings.client_id)
        self._storage = TokenStorage(file, settings)
        self._provider = self._produce_provider(url)
        self._storage.context = self._context = self._provider.context
        self._lock = asyncio.Lock()
        self._loopback: Loopback | None = None
        self._address = ""
        self._asked = 0

    def _produce_provider(self, url: str) -> OAuthClientProvider:
        settings = self._settings
        if settings.grant is GrantType.CLIENT_CREDENTIALS and settings.client_secret is not None:
            return ClientCredentialsOAuthProvider(
                server_url=url,
                storage=self._storage,
                client_id=settings.client_id,
                client_secret=settings.client_secret.reveal(),
                issuer=settings.issuer,
            )
        return OAuthClientProvider(
            server_url=url,
            client_metadata=OAuthClientMetadata(
                client_name="vibe-llms", redirect_uris=[AnyUrl("http://127.0.0.1/callback")]
            ),
            storage=self._storage,
            redirect_handler=self._keep_address,
            callback_handler=self._ask_person,
            client_metadata_url=settings.client_metadata_url or None,
        )

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request, and all requests that must precede it.

        Raises:
            EnsembleError: The authorization failed.
        """
        await self._storage.restore()
        sent, response = "", None
        # Without the lock unless a token is to be renewed: calls would wait for each other.
        if self._context.is_token_valid() or not self._context.can_refresh_token():
            sent = self._attach(request)
            response = yield request
            if not await self._is_challenge(response):
                return
        async with self._lock:
            await self._storage.reload()  # another process may have been authorized
            # Or another request, while this one waited: then the person is not asked again.
            if self._access_token() not in ("", sent):
                sent = self._attach(request)
                response = yield request
                if not await self._is_challenge(response):
                    return
            self._prepare_entrance(response)
            async with self._await_browser():
                flow = self._provider.async_auth_flow(request)
                try:
                    outgoing = await anext(flow)
                    while True:
                        is_asked = outgoing is request and self._access_token() == sent
                        # Reuses the response at hand: no request is sent twice.
                        if is_asked and response is not None:
                            answer, response = response, None
                        else:
                            # A server can name any address for the secrets that are sent.
                            self._ensure_private(outgoing.url)
                            answer = yield outgoing
                            if outgoing is not request or is_challenge(answer):
                                await receive(answer)
                        outgoing = await flow.asend(answer)
                except StopAsyncIteration:
                    return
                except (OAuthFlowError, ValueError, httpx2.StreamError) as error:
                    # The package quotes whole bodies in its errors, which may hold tokens.
                    raise self._refuse(explain(error)) from redact(error)
                finally:
                    await flow.aclose()

    async def _is_challenge(self, response: httpx2.Response) -> bool:
        """Return whether an authorization is required; then the response has been read.

        Raises:
            EnsembleError: The response is endless.
        """
        if not is_challenge(response):
            return False
        try:
            await receive(response)
        except httpx2.StreamError as error:
            raise self._refuse(explain(error)) from error
        return True

    def _access_token(self) -> str:
        tokens = self._context.current_tokens
        return tokens.access_token if tokens and self._context.is_token_valid() else ""

    def _attach(self, request: httpx2.Request) -> str:
        """Add the token, if there is a valid one; return it."""
        token = self._access_token()
        if token:
            request.headers["Authorization"] = f"Bearer {token}"
        return token

    def _prepare_entrance(self, response: httpx2.Response | None) -> None:
        """Renew a token that the server rejects; or refuse early.

        Raises:
            EnsembleError: A person must be asked, but none is available.
        """
        can_refresh = self._context.can_refresh_token()
        if can_refresh and response is not None and response.status_code == 401:
            # The package renews only expired tokens; else it sends a person to the browser.
            self._context.token_expiry_time = 1.0  # long ago
        if can_refresh or self._settings.grant is not GrantType.BROWSER:
            return
        if self._authorizer is None:
            raise self._refuse("a user must agree, but there is no user to ask")

    @asynccontextmanager
    async def _await_browser(self) -> AsyncIterator[None]:
        """Listen for the browser's redirect during an authorization."""
        if self._authorizer is None or self._settings.grant is not GrantType.BROWSER:
            yield
            return
        loopback = Loopback()
        try:
            await self._listen(loopback)
            self._loopback = loopback
            self._context.client_metadata.redirect_uris = [AnyUrl(loopback.address)]
            yield
        finally:
            self._loopback = None
            await loopback.close()

    async def _listen(self, loopback: Loopback) -> None:
        """Listen on the port of the client's registration, if there is one and it is free.

        Raises:
            EnsembleError: The configured port is taken.
        """
        port = self._settings.redirect_port
        try:
            if port or not (known := self._storage.redirect_port):
                await loopback.listen(port)
                return
        except OSError as error:
            raise self._refuse(
                f"the port {port} for the browser's return is in use: {error}"
            ) from error
        try:
            await loopback.listen(known)
        except OSError:
            self._storage.forget_client()  # its redirect is bound to that port
            await loopback.listen()

    async def _keep_address(self, address: str) -> None:
        """Store the address that the person must visit."""
        self._ensure_private(httpx2.URL(address))
        self._address = address

    async def _ask_person(self) -> AuthorizationCodeResult:
        """Send the person there, and wait for the browser's redirect."""
        if self._authorizer is None or self._loopback is None:
            raise OAuthFlowError("a user must agree, but there is no user to ask")
        if self._asked >= AUTHORIZATIONS_LIMIT:
            raise OAuthFlowError(f"it has asked {self._asked} times, which is the limit")
        self._asked += 1
        # The package does not expose the state; it is in the address that it has composed.
        state = parse_qs(urlsplit(self._address).query).get("state", [""])[0]
        answer = self._loopback.expect(state)
        # Concurrent with the wait: an authorizer may return only when the browser is closed.
        opening = asyncio.ensure_future(self._open(self._authorizer, self._loopback))
        seconds = self._settings.wait_seconds
        try:
            with self.timeout.wait_for_person():
                async with asyncio.timeout(seconds):
                    both: set[asyncio.Future[Any]] = {answer, opening}
                    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                    if not answer.done():
                        opening.result()  # it may have failed; else the redirect will come
                    parameters = await answer
        except TimeoutError as error:
            raise OAuthFlowError(f"the user did not agree within {seconds:g} seconds") from error
        finally:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
        return read_answer(parameters)

    async def _open(self, authorizer: OAuthAuthorizer, loopback: Loopback) -> None:
        """Open the address for the person, and use the redirect address that they enter, if any."""
        try:
            told = await authorizer.open(self.name, self._address)
        except Exception as error:
            raise OAuthFlowError(f"the user could not be asked: {error}") from error
        if told is not None and not loopback.take(told):
            raise OAuthFlowError("the returned address is not the expected one")

    def _ensure_private(self, url: httpx2.URL) -> None:
        """Refuse addresses that others could eavesdrop on.

        Raises:
            EnsembleError: It is not encrypted, and neither this machine's nor the server's own.
        """
        is_home = url.host in _LOOPBACKS and self._url.host in _LOOPBACKS
        is_own = (url.scheme, url.host, url.port) == (
            self._url.scheme,
            self._url.host,
            self._url.port,
        )
        if url.scheme == "https" or (url.scheme == "http" and (is_home or is_own)):
            return
        raise self._refuse(
            f"it uses {url.scheme}://{url.host} for authorization, which is not encrypted"
        )

    def _refuse(self, reason: str) -> EnsembleError:
        return EnsembleError(
            ensemble=self.name,
            detail=f"The MCP server {self.name!r} requires authorization: {reason}.",
            remedy="" if self._authorizer else "Authorize it once where a browser can be opened.",
        )
