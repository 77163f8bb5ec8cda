"""Storage of the OAuth flow's state between requests and processes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import BaseModel, ValidationError

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.files import replace_file
from vibe_llms.foundation.secrets import Settings
from vibe_llms.invocables.mcp.oauth.settings import OAuthSettings

_logger = logging.getLogger(__name__)
_Model = TypeVar("_Model", bound=BaseModel)

_VERSION: Final = 1
_LIMIT_BYTES: Final = 1_000_000
_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_BINARY: Final = getattr(os, "O_BINARY", 0)


class TokenStorage:
    """Stores a flow's state in a file: tokens, their expiry, the client, and the server's
    endpoints.

    The package itself stores only tokens: it would treat an expired token as new, and request the
    next token from the wrong endpoint.

    Args:
        file: The file; ``None`` to store nothing.
        settings: The OAuth settings, which may have a client that the user has registered.

    Attributes:
        context: The state of the package's flow.
    """

    context: OAuthContext

    def __init__(self, file: GrantFile | None, settings: OAuthSettings) -> None:
        self._file = file
        self._settings = settings
        self._is_restored = False

    async def restore(self) -> None:
        """Restore the stored state, once."""
        if self._is_restored:
            return
        self._is_restored = True
        self.context.client_info = self._produce_client()
        await self._read(is_first=True)

    async def reload(self) -> None:
        """Load grants that another process has received, if any."""
        await self._read(is_first=False)

    async def _read(self, *, is_first: bool) -> None:
        if self._file is None:
            return
        stored = await asyncio.to_thread(self._file.load)
        tokens = _parse(OAuthToken, stored.get("tokens"))
        current = self.context.current_tokens
        has_changed = tokens is not None and (
            current is None or tokens.access_token != current.access_token
        )
        if not (is_first or has_changed):
            return
        context = self.context
        context.current_tokens = tokens
        context.token_expiry_time = _read_expiry(stored)
        context.oauth_metadata = _parse(OAuthMetadata, stored.get("authorization_server"))
        resource = _parse(ProtectedResourceMetadata, stored.get("resource"))
        context.protected_resource_metadata = resource
        if resource is not None:
            context.auth_server_url = str(resource.authorization_servers[0])
        # A client that the user has registered takes precedence over one that registered itself.
        if not self._settings.client_id:
            context.client_info = _parse(OAuthClientInformationFull, stored.get("client"))

    def _produce_client(self) -> OAuthClientInformationFull | None:
        settings = self._settings
        if not settings.client_id:
            return None
        secret = settings.client_secret
        return OAuthClientInformationFull(
            client_id=settings.client_id,
            client_secret=secret.reveal() if secret is not None else None,
            token_endpoint_auth_method="client_secret_basic" if secret is not None else "none",
            issuer=settings.issuer or None,
        )

    @property
    def redirect_port(self) -> int:
        """The port of the client's registration; 0 without one."""
        client = self.context.client_info
        addresses = (client.redirect_uris or []) if client is not None else []
        return next((each.port for each in addresses if each.port), 0)

    def forget_client(self) -> None:
        """Forget the client, so that it registers again."""
        self.context.client_info = None

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens, as the package asks for them."""
        return self.context.current_tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens."""
        await self._write(tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client."""
        return self.context.client_info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store a client that has registered itself."""
        self.context.client_info = client_info
        await self._write(None)

    async def _write(self, tokens: OAuthToken | None) -> None:
        if self._file is None:
            return
        context = self.context
        values: dict[str, Any] = {
            "authorization_server": _dump(context.oauth_metadata),
            "resource": _dump(context.protected_resource_metadata),
        }
        if not self._settings.client_id:
            values["client"] = _dump(context.client_info)
        if tokens is not None:
            values["tokens"] = _dump(tokens)
            if tokens.expires_in is not None:
                # Wall-clock time, which other processes share.
                values["expires_at"] = time.time() + tokens.expires_in
        try:
            await asyncio.to_thread(self._file.save, values)
        except OSError as error:
            _logger.warning("The authorization is not stored: %s", error)


def _parse(model: type[_Model], value: object) -> _Model | None:
    if not isinstance(value, dict):
        return None
    try:
        return model.model_validate(value)
    except ValidationError:
        return None


def _dump(value: BaseModel | None) -> Any:
    return None if value is None else value.model_dump(mode="json", exclude_none=True)


def _read_expiry(stored: Mapping[str, Any]) -> float | None:
    moment = stored.get("expires_at")
    return float(moment) if isinstance(moment, (int, float)) else None


@frozen
class GrantFile:
    """Grant file of one server and one client, so that no other server receives the grant.

    Attributes:
        directory: The directory of grant files, which is created for the user alone.
        server: The address of the server.
        client_id: The id of the client that the user has registered, if any.
    """

    directory: Path
    server: str
    client_id: str = ""

    @property
    def path(self) -> Path:
        """Path of the file, whose name discloses nothing."""
        text = json.dumps([self.server, self.client_id])
        # A digest, because an address may contain secrets, and characters invalid in file names.
        return self.directory / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"

    def load(self) -> Mapping[str, Any]:
        """Return the stored mapping, which prints only its keys; empty if there is none.

        An invalid file counts as empty, because its content can be requested again.
        """
        try:
            # Links are not followed, so that the file of another user cannot be used as a grant.
            descriptor = os.open(self.path, os.O_RDONLY | _NO_FOLLOW | _BINARY)
        except OSError:
            return Settings({})
        with os.fdopen(descriptor, "rb") as file:
            if os.name != "nt" and os.fstat(descriptor).st_mode & 0o077:
                os.fchmod(descriptor, 0o600)
                _logger.warning(
                    "%s was readable by others; its permissions are now restricted.", self.path
                )
            data = file.read(_LIMIT_BYTES)
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict) or document.get("version") != _VERSION:
            _logger.warning("%s is ignored: it contains no authorization.", self.path)
            return Settings({})
        # Compare the server, so that a renamed file does not send a token to another server.
        if document.get("server") != self.server:
            return Settings({})
        return Settings(document)

    def save(self, values: Mapping[str, Any]) -> None:
        """Replace the file atomically.

        Raises:
            OSError: The file cannot be written.
        """
        document = {"version": _VERSION, "server": self.server, **values}
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(self.path, json.dumps(document).encode(), mode=0o600)

    def remove(self) -> None:
        """Delete the grant."""
        with suppress(FileNotFoundError):
            self.path.unlink()
