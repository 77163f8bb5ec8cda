"""Being let in by a server that wants OAuth: what the user says about it, and who asks a person."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

import attrs

from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.invocables.mcp.patience import Patience
from vibe_llms.nearness import end_among
from vibe_llms.secrets import Secret

if TYPE_CHECKING:
    from vibe_llms.invocables.mcp.authorization import Authorization


class Grant(enum.StrEnum):
    """How a client is let in: a person agrees in a browser, or the client has a password."""

    BROWSER = "browser"
    CLIENT_CREDENTIALS = "client-credentials"


def _ensure_secret(given: str | Secret | None) -> Secret | None:
    return given if isinstance(given, Secret) or given is None else Secret(given)


@attrs.frozen(kw_only=True, eq=False)
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

    grant: Grant = attrs.field(default=Grant.BROWSER, converter=Grant)
    client_id: str = ""
    client_secret: Secret | None = attrs.field(default=None, converter=_ensure_secret)
    client_metadata_url: str = ""
    issuer: str = ""
    redirect_port: int = 0
    wait_seconds: float = 300.0

    def __attrs_post_init__(self) -> None:
        if findings := tuple(self._find_mistakes()):
            raise ConfigurationError(findings=findings)

    def _find_mistakes(self) -> list[Finding]:
        said: list[tuple[str, str]] = []
        if self.client_secret is not None and not self.client_id:
            said.append(("client_secret", "It belongs to a client_id, and none is given."))
        if self.grant is Grant.CLIENT_CREDENTIALS:
            said += [
                (key, "A client that lets itself in needs it.")
                for key in ("client_id", "client_secret", "issuer")
                if not getattr(self, key)
            ]
        if self.client_metadata_url and not _is_document(self.client_metadata_url):
            said.append(("client_metadata_url", "It must be an https address with a path."))
        if not 0 <= self.redirect_port <= 65_535:
            said.append(("redirect_port", "It must be a port, or 0 for any."))
        if not self.wait_seconds > 0:
            said.append(("wait_seconds", "It must be above 0."))
        return [Finding(place=f"oauth.{key}", message=text) for key, text in said]


def _is_document(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme == "https" and bool(parts.netloc) and parts.path not in ("", "/")


_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "grant": (str,),
    "client_id": (str,),
    "client_secret": (str, Secret),
    "client_metadata_url": (str,),
    "issuer": (str,),
    "redirect_port": (int,),
    "wait_seconds": (int, float),
}


def read_oauth(table: Mapping[str, Any], place: str = "oauth") -> OAuthSettings:
    """Reads what a user wrote about OAuth.

    Args:
        table: As the fields of :class:`OAuthSettings`.
        place: Where it was written, for complaints.

    Raises:
        ConfigurationError: It does not hold; all complaints at once.
    """
    findings = [
        Finding(place=f"{place}.{key}", message=message) for key, message in _find_mistakes(table)
    ]
    if findings:
        raise ConfigurationError(findings=tuple(findings))
    try:
        return OAuthSettings(**table)
    except ConfigurationError as error:
        raise ConfigurationError(
            findings=tuple(
                attrs.evolve(each, place=f"{place}.{each.place.partition('.')[2]}")
                for each in error.findings
            )
        ) from error


def _find_mistakes(table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if key not in _KINDS:
            yield key, f"OAuth has no such setting{end_among(key, tuple(_KINDS))}"
        elif isinstance(value, bool) or not isinstance(value, _KINDS[key]):
            yield key, f"It must be {'a text' if str in _KINDS[key] else 'a number'}."
    grant = table.get("grant", Grant.BROWSER)
    if isinstance(grant, str) and grant not in tuple(Grant):
        yield "grant", f"It must be {' or '.join(Grant)}."


class Authorizer(Protocol):
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


@attrs.frozen
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


def produce_authorization(
    name: str,
    url: str,
    settings: OAuthSettings | None = None,
    *,
    directory: Path | None = None,
    authorizer: Authorizer | None = None,
    patience: Patience | None = None,
) -> Authorization:
    """Produces what authenticates the requests to one MCP server.

    Args:
        name: What the user calls the server.
        url: Its address.
        settings: What is known beforehand, if anything.
        directory: Where tokens are kept, in files that nobody else can read; ``None`` to keep
            them no longer than the process lives.
        authorizer: Who brings a person to the browser; ``None`` where there is nobody. Then
            tokens that are kept still serve, and are renewed.
        patience: Is told when a person is waited for.

    Returns:
        An ``Auth`` for the client of the official package, which has to be installed.
    """
    from vibe_llms.invocables.mcp.authorization import Authorization

    return Authorization(
        name,
        url,
        settings or OAuthSettings(),
        directory=directory,
        authorizer=authorizer,
        patience=patience or Patience(),
    )
