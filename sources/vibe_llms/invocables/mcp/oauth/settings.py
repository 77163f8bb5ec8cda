"""OAuth settings, and the protocol for sending a person to a browser."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Protocol
from urllib.parse import urlsplit

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.secrets import Secret
from vibe_llms.invocables.mcp.secret_texts import SecretText
from vibe_llms.tables.annotations import Wait
from vibe_llms.tables.kinds import Kind, bound, is_web_address
from vibe_llms.tables.reading import require


class GrantType(enum.StrEnum):
    """Kind of grant: a user agrees in a browser, or the client authenticates with a secret."""

    BROWSER = "browser"
    CLIENT_CREDENTIALS = "client-credentials"


def _is_document(address: Any) -> bool:
    parts = urlsplit(address) if is_web_address(address) else None
    return parts is not None and parts.scheme == "https" and parts.path not in ("", "/")


def _ensure_secret(text: str | Secret | None) -> Secret | None:
    return text if isinstance(text, Secret) or text is None else Secret(text)


@frozen(kw_only=True, eq=False)
class OAuthSettings:
    """OAuth settings. Most servers need none.

    Attributes:
        grant: Kind of grant.
        client_id: The id of a client that the user has registered; without one, the client
            registers itself.
        client_secret: The secret of the client, if it has one.
        client_metadata_url: Address of a document that describes the client, for authorization
            servers that accept it as the client's id.
        issuer: The authorization server of ``client_id``, the only one that receives the secret.
        redirect_port: Local port of the browser's redirect; 0 for any free port.
        wait_seconds: Time limit for a person to agree.

    Raises:
        ConfigurationError: The fields contradict each other.
    """

    grant: GrantType = attrs.field(default=GrantType.BROWSER, converter=GrantType)
    client_id: str = ""
    client_secret: SecretText | None = attrs.field(default=None, converter=_ensure_secret)
    client_metadata_url: Annotated[
        str, Kind("an https address with a path", _is_document, is_shown=False)
    ] = ""
    issuer: str = ""
    redirect_port: Annotated[int, bound("a port, or 0 for any", 0, 65_535)] = 0
    wait_seconds: Wait = 300.0

    def __attrs_post_init__(self) -> None:
        require(self, "oauth")

    def find_mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield each contradiction: the field and the message."""
        if self.client_secret is not None and not self.client_id:
            yield "client_secret", "It belongs to a client_id, which is missing."
        if self.grant is GrantType.CLIENT_CREDENTIALS:
            for key in ("client_id", "client_secret", "issuer"):
                if not getattr(self, key):
                    yield key, "client_credentials needs it."


class OAuthAuthorizer(Protocol):
    """Protocol for sending a person to an address, where they authorize this program.

    Afterwards the browser is redirected to a local address, where this program listens. A person
    whose browser runs on another machine can enter that address instead.
    """

    async def open(self, server: str, address: str) -> str | None:
        """Open or show an address.

        It may take any time, and is cancelled when the browser has been redirected.

        Args:
            server: The name of the MCP server that requires it.
            address: The address to visit; ``https``, or on this machine.

        Returns:
            The browser's last address, if the person entered it; ``None`` to wait for the redirect.
        """
        ...


@frozen
class TellingAuthorizer:
    """Authorizer that shows the address in one line, and waits for the browser's redirect.

    Attributes:
        tell: Called with the line.
    """

    tell: Callable[[str], None]

    async def open(self, server: str, address: str) -> str | None:
        """Show the address."""
        self.tell(f"To let this program use {server}, open: {address}")
        return None
