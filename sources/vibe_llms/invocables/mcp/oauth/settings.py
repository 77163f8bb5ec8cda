"""Being let in by a server that wants OAuth: what the user says about it, and who asks a person."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Protocol
from urllib.parse import urlsplit

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.secrets import Secret
from vibe_llms.invocables.mcp.secret_texts import SecretText
from vibe_llms.tables.annotations import Wait
from vibe_llms.tables.kinds import Kind, bound, is_web_address
from vibe_llms.tables.reading import require

if TYPE_CHECKING:
    pass


class GrantType(enum.StrEnum):
    """How a client is let in: a person agrees in a browser, or the client has a password."""

    BROWSER = "browser"
    CLIENT_CREDENTIALS = "client-credentials"


def _is_document(address: Any) -> bool:
    parts = urlsplit(address) if is_web_address(address) else None
    return parts is not None and parts.scheme == "https" and parts.path not in ("", "/")


def _ensure_secret(given: str | Secret | None) -> Secret | None:
    return given if isinstance(given, Secret) or given is None else Secret(given)


@frozen(kw_only=True, eq=False)
class OAuthSettings:
    """What is known beforehand about being let in. Mostly nothing is, and nothing is needed.

    Attributes:
        grant: How the client is let in.
        client_id: Of a client that was registered by hand; else it registers itself.
        client_secret: Of that client, where it has one.
        client_metadata_url: Where a document that describes the client can be read, for
            authorization servers which take its address for a name.
        issuer: The authorization server that ``client_id`` belongs to: no other is told the
            secret.
        redirect_port: Where the browser comes back to, on this machine; 0 for any free port.
        wait_seconds: How long a person may take.

    Raises:
        ConfigurationError: The parts do not go together.
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
        """Yields what does not go together: a field, and a sentence."""
        if self.client_secret is not None and not self.client_id:
            yield "client_secret", "It belongs to a client_id, which is missing."
        if self.grant is GrantType.CLIENT_CREDENTIALS:
            for key in ("client_id", "client_secret", "issuer"):
                if not getattr(self, key):
                    yield key, "client_credentials needs it."


class OAuthAuthorizer(Protocol):
    """Whoever brings a person to an address, where they agree to let this program in.

    Afterwards the browser is sent to an address of this machine, where it is waited for. A
    person whose browser runs on another machine can tell the address that it ended at.
    """

    async def open(self, server: str, address: str) -> str | None:
        """Opens or shows an address.

        It may wait as long as it likes, and is cancelled when the browser has come back.

        Args:
            server: The name of the MCP server that wants it.
            address: Where the person has to go; ``https``, or on this machine.

        Returns:
            Where the browser was sent in the end, if somebody told; ``None`` to wait for it.
        """
        ...


@frozen
class TellingAuthorizer:
    """Tells a person the address, in one line, and waits for the browser to come back.

    Attributes:
        tell: Takes the line.
    """

    tell: Callable[[str], None]

    async def open(self, server: str, address: str) -> str | None:
        """Tells it."""
        self.tell(f"To let this program use {server}, open: {address}")
        return None
