"""OAuth for the requests to one MCP server: the official package's flow, with limits.

The package implements the protocols: discovery, registration, proof keys, resource indicators, and
wider scopes. This module limits how often a person is asked, keeps secrets out of logs, stores
grants beyond the process, and lets requests run concurrently (decision 0016). It needs the package,
and is therefore imported only when a connection is made.
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
"""Maximum number of times that one process asks the user to authorize it for one server."""

_LOOPBACKS: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class Authorization(httpx2.Auth):
    """Authenticates the requests to one server.

    Args:
        name: The user's name of the server.
        url: Address of the server.
        settings: The OAuth settings, if any.
        directory: The directory of grants; ``None`` to keep them in memory only.
        authorizer: Sends a person to the browser; ``None`` if there is no person.
        timeout: A timeout, which is paused while a person is asked.
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
        self._authorizations = 0

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
            redirect_handler=self._store_address,
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
        sent_token, response = "", None
        # The lock is only for renewing a token, because requests must not wait for each other.
        if self._context.is_token_valid() or not self._context.can_refresh_token():
            sent_token = self._attach_token(request)
            response = yield request
            if not await self._is_challenge(response):
                return
        async with self._lock:
            await self._storage.reload()  # another process may have been authorized
            # Another request may have been authorized while this one waited for the lock.
            if self._access_token() not in ("", sent_token):
                sent_token = self._attach_token(request)
                response = yield request
                if not await self._is_challenge(response):
                    return
            self._prepare_authorization(response)
            async with self._listen_for_browser():
                flow = self._provider.async_auth_flow(request)
                try:
                    outgoing = await anext(flow)
                    while True:
                        is_answered = outgoing is request and self._access_token() == sent_token
                        # The response to a repeated request with an unchanged token is reused.
                        if is_answered and response is not None:
                            answer, response = response, None
                        else:
                            # A server could name any address to which secrets are then sent.
                            self._ensure_private(outgoing.url)
                            answer = yield outgoing
                            if outgoing is not request or is_challenge(answer):
                                await receive(answer)
                        outgoing = await flow.asend(answer)
                except StopAsyncIteration:
                    return
                except (OAuthFlowError, ValueError, httpx2.StreamError) as error:
                    # The package quotes whole bodies in its errors, and bodies may contain tokens.
                    raise self._refuse(explain(error)) from redact(error)
                finally:
                    await flow.aclose()

    async def _is_challenge(self, response: httpx2.Response) -> bool:
        """Return whether an authorization is required; if so, read the response.

        Raises:
            EnsembleError: The response is too large.
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

    def _attach_token(self, request: httpx2.Request) -> str:
        """Add the token to a request, if there is a valid one; return the token."""
        token = self._access_token()
        if token:
            request.headers["Authorization"] = f"Bearer {token}"
        return token

    def _prepare_authorization(self, response: httpx2.Response | None) -> None:
        """Mark a rejected token as expired, so that it is renewed; or refuse early.

        Raises:
            EnsembleError: A person must be asked, but none is available.
        """
        can_refresh = self._context.can_refresh_token()
        if can_refresh and response is not None and response.status_code == 401:
            # The package renews only expired tokens; otherwise it would ask a person.
            self._context.token_expiry_time = 1.0  # in 1970
        if can_refresh or self._settings.grant is not GrantType.BROWSER:
            return
        if self._authorizer is None:
            raise self._refuse("a user must agree, but there is no user to ask")

    @asynccontextmanager
    async def _listen_for_browser(self) -> AsyncIterator[None]:
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
        """Listen on the port of the client's registration, if that port is known and free.

        Raises:
            EnsembleError: The configured port is in use.
        """
        port = self._settings.redirect_port
        try:
            if port or not (registered_port := self._storage.redirect_port):
                await loopback.listen(port)
                return
        except OSError as error:
            raise self._refuse(
                f"the port {port} for the browser's return is in use: {error}"
            ) from error
        try:
            await loopback.listen(registered_port)
        except OSError:
            self._storage.forget_client()  # its redirect is bound to that port
            await loopback.listen()

    async def _store_address(self, address: str) -> None:
        """Store the address that the person must visit."""
        self._ensure_private(httpx2.URL(address))
        self._address = address

    async def _ask_person(self) -> AuthorizationCodeResult:
        """Send the person to the stored address, and wait for the browser's redirect."""
        if self._authorizer is None or self._loopback is None:
            raise OAuthFlowError("a user must agree, but there is no user to ask")
        if self._authorizations >= AUTHORIZATIONS_LIMIT:
            raise OAuthFlowError(f"it has asked {self._authorizations} times, which is the limit")
        self._authorizations += 1
        # The package does not expose the state, so it is taken from the address.
        state = parse_qs(urlsplit(self._address).query).get("state", [""])[0]
        answer = self._loopback.expect(state)
        # Concurrently, because an authorizer may return only when the browser is closed.
        opening = asyncio.ensure_future(self._open(self._authorizer, self._loopback))
        seconds = self._settings.wait_seconds
        try:
            with self.timeout.wait_for_person():
                async with asyncio.timeout(seconds):
                    both: set[asyncio.Future[Any]] = {answer, opening}
                    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                    if not answer.done():
                        opening.result()  # raises the error of an authorizer that has failed
                    parameters = await answer
        except TimeoutError as error:
            raise OAuthFlowError(f"the user did not agree within {seconds:g} seconds") from error
        finally:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
        return read_answer(parameters)

    async def _open(self, authorizer: OAuthAuthorizer, loopback: Loopback) -> None:
        """Open the address for the person; accept the redirect address that they enter, if any."""
        try:
            redirect = await authorizer.open(self.name, self._address)
        except Exception as error:
            raise OAuthFlowError(f"the user could not be asked: {error}") from error
        if redirect is not None and not loopback.accept(redirect):
            raise OAuthFlowError("the returned address is not the expected one")

    def _ensure_private(self, url: httpx2.URL) -> None:
        """Refuse an address on which others could eavesdrop.

        Raises:
            EnsembleError: The address is not encrypted, and is on neither this machine nor the
                server's host.
        """
        is_local = url.host in _LOOPBACKS and self._url.host in _LOOPBACKS
        is_server = (url.scheme, url.host, url.port) == (
            self._url.scheme,
            self._url.host,
            self._url.port,
        )
        if url.scheme == "https" or (url.scheme == "http" and (is_local or is_server)):
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
