"""Fetch a web page, only from permitted addresses and within limits."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection
from typing import TYPE_CHECKING, Final

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.invocables.pages.addresses import Resolve
from vibe_llms.invocables.pages.page_bodies import PageBody, read_body
from vibe_llms.invocables.refusals import Refusal

if TYPE_CHECKING:
    import yarl

    from vibe_llms.wire.http.connection import HttpConnection
    from vibe_llms.wire.http.names import SocketAddress

_URL_CHARACTERS: Final = 4_000
_CONNECT_SECONDS: Final = 10.0
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_HEADERS: Final = {
    "Accept": "text/html, text/markdown, text/plain, application/json;q=0.9, */*;q=0.1",
    # Compressions that the standard library can unpack in parts, within limits.
    "Accept-Encoding": "gzip",
    "Connection": "close",
    "User-Agent": "vibe-llms",
}

_CHARSET: Final = re.compile(r"""charset\s*=\s*["']?([^"';\s]+)""", re.IGNORECASE)


@frozen(kw_only=True)
class PageBounds:
    """Limits for fetching a page.

    Attributes:
        page_bytes: Maximum size, both compressed and decompressed.
        redirects: Maximum number of redirects.
        private_hosts: Names and addresses that are permitted although they are not public.
        schemes: Permitted schemes, also for redirects.
    """

    page_bytes: int = 5_000_000
    redirects: int = 5
    private_hosts: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ("http", "https")


@frozen(kw_only=True)
class Page:
    """A fetched page.

    Attributes:
        url: Address of the page, after all redirects.
        status: The HTTP status.
        kind: The media type, in lower case.
        charset: The charset in the header of the response; may be empty.
        size: The size in the header of the response; ``None`` without one.
        body: The part of the body that was read.
    """

    url: str
    status: int
    kind: str
    charset: str
    size: int | None
    body: PageBody


def parse_url(text: str, schemes: Collection[str]) -> yarl.URL:
    """Parse an address.

    Raises:
        Refusal: The address is invalid, its scheme is not permitted, or it has a user or password.
    """
    import yarl

    shown = ascii(text if len(text) <= 200 else f"{text[:200]}…")
    if len(text) > _URL_CHARACTERS:
        raise Refusal(f"An address has at most {_URL_CHARACTERS} characters.")
    if any(ord(each) <= 32 or 127 <= ord(each) < 160 or each == "\\" for each in text.strip(" ")):
        raise Refusal(f"{shown} contains a character that is not allowed in an address.")
    try:
        url = yarl.URL(text.strip(" "))
        # Access all parts, because some invalid parts of an address are detected only on access.
        url_text, host, _ = str(url), url.host, url.port
        url_text.encode("ascii")
    except (ValueError, UnicodeError) as error:
        raise Refusal(f"{shown} is not an address.") from error
    if url.scheme not in schemes or not host:
        permitted = " or ".join(f"{scheme}://" for scheme in schemes)
        raise Refusal(f"Cannot fetch {shown}: use an address that starts with {permitted}.")
    # A user disguises the host, as in https://bank.example@evil.example; passwords are never sent.
    if url.user is not None or url.password is not None:
        raise Refusal("Addresses with a user or password are not allowed.")
    return url.with_fragment(None)


async def get_page(
    text: str,
    bounds: PageBounds,
    resolve: Resolve,
    is_allowed: Callable[[str], bool],
    wants: Callable[[str, int], bool],
) -> Page:
    """Fetch a page and follow redirects, each of which must pass the same checks.

    Args:
        resolve: Resolves a host, once per request; the connection uses its addresses.
        is_allowed: Returns whether connecting to an address is permitted.
        wants: Returns whether to read the body of a response with a media type and a status.

    Raises:
        Refusal: The page is unavailable, or not permitted.
    """
    url = parse_url(text, bounds.schemes)
    for _ in range(bounds.redirects + 1):
        result = await _request(url, bounds, resolve, is_allowed, wants)
        if isinstance(result, Page):
            return result
        try:
            # Check again, because a public page may redirect into the internal network.
            url = parse_url(str(url.join(result)), bounds.schemes)
        except Refusal as refusal:
            raise Refusal(
                f"The page redirects to an address that is not allowed: {refusal}"
            ) from refusal
    raise Refusal(f"The page redirects more than {bounds.redirects} times.")


async def _request(
    url: yarl.URL,
    bounds: PageBounds,
    resolve: Resolve,
    is_allowed: Callable[[str], bool],
    wants: Callable[[str, int], bool],
) -> Page | yarl.URL:
    """Send one request: return the page, or the target of a redirect."""
    import yarl

    from vibe_llms.wire.http import heads
    from vibe_llms.wire.http.connection import HttpConnection
    from vibe_llms.wire.http.dialing import dial

    host = (url.host or "").rstrip(".").lower()
    # The exemption is for this host only, not for the target of its redirect.
    is_exempt = host in {each.lower() for each in bounds.private_hosts}
    guard = _Guard(host, resolve, (lambda _: True) if is_exempt else is_allowed)
    connection = HttpConnection(asyncio.get_running_loop(), host)
    try:
        target = heads.parse_target(str(url))
        async with asyncio.timeout(_CONNECT_SECONDS):
            # Connect to the checked address: a second resolution could differ.
            await dial(connection, target, resolve=guard.look_up)
        connection.send(heads.compose_head("GET", target, _HEADERS, 0))
        await connection.wait_until_ready(None, "first-byte")
        location = connection.answer.headers.get("location", "")
        if connection.answer.status in _REDIRECTS and location:
            return yarl.URL(location)
        return await _read(connection, url, bounds.page_bytes, wants)
    except Refusal:
        raise
    except (OSError, ValueError) as error:
        raise Refusal(guard.explain(error)) from error
    finally:
        connection.abort()


async def _read(
    connection: HttpConnection,
    url: yarl.URL,
    limit: int,
    wants: Callable[[str, int], bool],
) -> Page:
    headers = connection.answer.headers
    kind, _, parameters = headers.get("content-type", "text/plain").partition(";")
    kind = kind.strip().lower()
    charset = _CHARSET.search(parameters)
    size = headers.get("content-length", "")
    body = PageBody(b"", is_cut=True)
    if wants(kind, connection.answer.status):
        coding = headers.get("content-encoding", "")
        body = await read_body(_iterate(connection), coding, limit)
    return Page(
        url=str(url),
        status=connection.answer.status,
        kind=kind,
        charset=charset[1] if charset else "",
        size=int(size) if size.isdecimal() else None,
        body=body,
    )


async def _iterate(connection: HttpConnection) -> AsyncIterator[bytes]:
    """Yield a body as it arrives."""
    while True:
        if data := connection.read_buffered():
            yield data
        elif connection.fault is not None:
            raise connection.fault
        elif connection.answer.is_complete:
            return
        else:
            await connection.wait(None, "between-chunks")


class _Guard:
    """Guard of one request, which resolves the host and checks the addresses.

    The connection uses the checked addresses, so that the result of the resolution cannot change
    between the check and the use.
    """

    def __init__(self, host: str, resolve: Resolve, is_allowed: Callable[[str], bool]) -> None:
        self._host = host
        self._resolve = resolve
        self._is_allowed = is_allowed
        self._has_refused = False

    async def look_up(self, host: str, port: int) -> list[SocketAddress]:
        """Return the addresses of a host. Raises PermissionError if one is not permitted."""
        from vibe_llms.wire.http.names import read_address

        # An address needs no resolution, but must be checked, too.
        if place := read_address(host, port):
            self._ensure_allowed(host)
            return [place]
        addresses = await self._resolve(host, port)
        # All addresses must be permitted, because the used address is chosen later.
        for address in addresses:
            self._ensure_allowed(address)
        return [place for each in addresses if (place := read_address(each, port))]

    def _ensure_allowed(self, address: str) -> None:
        if not self._is_allowed(address):
            self._has_refused = True
            raise PermissionError(f"{address} is not public")

    def explain(self, error: Exception) -> str:
        """Explain to a model why a request failed."""
        if self._has_refused:
            return (
                f"{self._host} is not on the public network. Only the user can allow it, in "
                "private_hosts."
            )
        if isinstance(error, TimeoutError):
            return f"{self._host} does not answer."
        from vibe_llms.exceptions import Stage
        from vibe_llms.wire import failures
        from vibe_llms.wire.exchanges import Timeouts

        facts = failures.ExchangeFacts(self._host, Timeouts(), 0)
        return failures.translate(error, facts, Stage.SEND).detail
