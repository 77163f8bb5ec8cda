"""One page from the web: who may be asked, and how much is taken of what they say."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import attrs

from vibe_llms.invocables.shipped.fetch.addresses import Resolve
from vibe_llms.invocables.shipped.fetch.bodies import Body, read_body
from vibe_llms.invocables.shipped.fetch.settings import FetchSettings
from vibe_llms.invocables.shipped.refusals import Refusal

if TYPE_CHECKING:
    import aiohttp
    import yarl

_PIECE_BYTES: Final = 65_536
_URL_CHARACTERS: Final = 4_000
_CONNECT_SECONDS: Final = 10.0
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_HEADERS: Final = {
    "Accept": "text/html, text/markdown, text/plain, application/json;q=0.9, */*;q=0.1",
    "Accept-Encoding": "gzip",
    "User-Agent": "vibe-llms",
}


@attrs.frozen(kw_only=True)
class Page:
    """What came.

    Attributes:
        url: Whence, after all redirections.
        status: Of HTTP.
        kind: The media type, in small letters.
        charset: As the answer calls it; may be empty.
        size: As the answer tells it; ``None`` where it does not.
        body: As far as it was read.
    """

    url: str
    status: int
    kind: str
    charset: str
    size: int | None
    body: Body


def parse_url(text: str) -> yarl.URL:
    """Reads what a model calls an address.

    Raises:
        Refusal: It is none of http or https, or has a user or password in it.
    """
    import yarl

    shown = ascii(text if len(text) <= 200 else f"{text[:200]}…")
    if len(text) > _URL_CHARACTERS:
        raise Refusal(f"An address has at most {_URL_CHARACTERS} characters.")
    if any(ord(each) <= 32 or 127 <= ord(each) < 160 or each == "\\" for each in text.strip(" ")):
        raise Refusal(f"{shown} holds a character that no address may hold.")
    try:
        url = yarl.URL(text.strip(" "))
        url_text, host, _ = str(url), url.host, url.port
        url_text.encode("ascii")
    except (ValueError, UnicodeError) as error:
        raise Refusal(f"{shown} is no address.") from error
    if url.scheme not in ("http", "https") or not host:
        raise Refusal(f"{shown} cannot be fetched: give an address of http:// or https://.")
    if url.user is not None or url.password is not None:
        raise Refusal("An address with a user or a password in it is not fetched.")
    return url.with_fragment(None)


async def get_page(
    text: str,
    settings: FetchSettings,
    resolve: Resolve,
    is_allowed: Callable[[str], bool],
    wants: Callable[[str, int], bool],
) -> Page:
    """Fetches a page, redirections followed; each goes through the same checks.

    Args:
        resolve: Asked once for each step; the answer is what is connected to.
        is_allowed: Tells of an address whether it may be connected to.
        wants: Tells of a media type and a status whether the body is to be read.

    Raises:
        Refusal: It cannot be had, or may not.
    """
    url = parse_url(text)
    for _ in range(settings.redirects + 1):
        answer = await _ask(url, settings, resolve, is_allowed, wants)
        if isinstance(answer, Page):
            return answer
        try:
            url = parse_url(str(url.join(answer)))
        except Refusal as refusal:
            raise Refusal(f"The page redirects elsewhere: {refusal}") from refusal
    raise Refusal(f"The page redirects more than {settings.redirects} times.")


async def _ask(
    url: yarl.URL,
    settings: FetchSettings,
    resolve: Resolve,
    is_allowed: Callable[[str], bool],
    wants: Callable[[str, int], bool],
) -> Page | yarl.URL:
    """Takes one step: the page, or where else it is."""
    import aiohttp
    import yarl

    host = (url.host or "").rstrip(".").lower()
    is_exempt = host in {each.lower() for each in settings.private_hosts}
    guard = _Guard(host, resolve, (lambda _: True) if is_exempt else is_allowed)
    connector = aiohttp.TCPConnector(
        resolver=guard.produce_resolver(),
        socket_factory=guard.produce_socket,
        force_close=True,
        use_dns_cache=False,
    )
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(
                connector=connector,
                timeout=timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=_HEADERS,
                auto_decompress=False,
                trust_env=False,
            ) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            location = response.headers.get("Location", "")
            if response.status in _REDIRECTS and location:
                return yarl.URL(location)
            return await _read(response, url, settings.page_bytes, wants)
    except Refusal:
        raise
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise Refusal(guard.explain(error)) from error


async def _read(
    response: aiohttp.ClientResponse,
    url: yarl.URL,
    limit: int,
    wants: Callable[[str, int], bool],
) -> Page:
    kind = response.content_type.lower() if "Content-Type" in response.headers else "text/plain"
    body = Body(b"", is_cut=True)
    if wants(kind, response.status):
        pieces = response.content.iter_chunked(_PIECE_BYTES)
        body = await read_body(pieces, response.headers.get("Content-Encoding", ""), limit)
    return Page(
        url=str(url),
        status=response.status,
        kind=kind,
        charset=response.charset or "",
        size=response.content_length,
        body=body,
    )


class _Guard:
    """Watches over one step: what a name resolves to, and each address that is connected to.

    A name is resolved once, and what it resolved to is connected to: it cannot mean one thing
    when it is checked and another when it is used. The socket is checked besides, as an address
    that stands in the URL itself is not resolved.
    """

    def __init__(self, host: str, resolve: Resolve, is_allowed: Callable[[str], bool]) -> None:
        self._host = host
        self._resolve = resolve
        self._is_allowed = is_allowed
        self._refused = False

    def produce_resolver(self) -> Any:
        """Makes what aiohttp asks for addresses."""
        from aiohttp.abc import AbstractResolver

        guard = self

        class Resolver(AbstractResolver):
            async def resolve(self, host: str, port: int = 0, family: int = 0) -> Any:
                return await guard.look_up(host, port)

            async def close(self) -> None:
                return

        return Resolver()

    async def look_up(self, host: str, port: int) -> list[dict[str, Any]]:
        """Returns the addresses of a host, all of which are allowed."""
        addresses = await self._resolve(host, port)
        for address in addresses:
            self._ensure_allowed(address)
        return [
            {
                "hostname": host,
                "host": address,
                "port": port,
                "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
                "proto": 0,
                "flags": socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            }
            for address in addresses
        ]

    def produce_socket(self, information: Any) -> socket.socket:
        """Makes the socket for an address, if that is allowed."""
        family, kind, protocol, _, address = information
        self._ensure_allowed(str(address[0]))
        return socket.socket(family=family, type=kind, proto=protocol)

    def _ensure_allowed(self, address: str) -> None:
        if not self._is_allowed(address):
            self._refused = True
            raise PermissionError(f"{address} is not public")

    def explain(self, error: Exception) -> str:
        """Says for a model why a step failed."""
        if self._refused:
            return (
                f"{self._host} is not fetched: it is not of the public network. Only the user can "
                "allow it, in private_hosts."
            )
        if isinstance(error, TimeoutError):
            return f"{self._host} does not answer."
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return f"{self._host} cannot be fetched: {reason[:300]}."
