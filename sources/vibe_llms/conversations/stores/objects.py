"""Content as objects of S3, or of what speaks its protocol.

Whoever signs a request says the SHA-256 of its body; that is the name of the content, so that the
server itself refuses bytes that were changed on their way.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from html import unescape
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote, unquote, urlencode, urlsplit

import attrs

from vibe_llms.asynchrony import access_portal
from vibe_llms.clocks import Clock
from vibe_llms.concealment import remember_key
from vibe_llms.conversations.stores.naming import ensure_content_id, is_content_id
from vibe_llms.conversations.stores.object_keys import KEYS, KeyRing, read_region
from vibe_llms.conversations.stores.places import MARKER, PlacedBytes, describe_missing
from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    CorruptionError,
    LimitError,
    ProviderError,
    ProviderFault,
    StoreError,
    StoreUnavailableError,
)
from vibe_llms.limits import Limits
from vibe_llms.messages.contents import compute_content_id
from vibe_llms.providers.borders import clean_error
from vibe_llms.providers.retries import RetryPolicy, repeat
from vibe_llms.secrets import Secret
from vibe_llms.values import define, frozen
from vibe_llms.wire.direct import DirectTransport
from vibe_llms.wire.exchanges import Timeouts, WireRequest
from vibe_llms.wire.signatures import sign

CONTENT_BYTES: Final = 268_435_456
"""How large one content may be: it is sent, and received, as a whole."""

TIMEOUTS: Final = Timeouts(first_byte_seconds=60, between_chunks_seconds=30, total_seconds=600)
"""How long a server is waited for each time that it is asked."""

_PORTAL: Final = "objects"
_ERROR_BYTES: Final = 65_536
_EMPTY: Final = compute_content_id(b"")
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_FAULTS: Final = {
    408: ProviderFault.TIMEOUT,
    429: ProviderFault.RATE_LIMITED,
    503: ProviderFault.OVERLOADED,
}
_SAID: Final = re.compile(rb"<(Code|Message)>([^<]{1,500})</")

_PAGE: Final = "1000"
_TOKEN: Final = re.compile("<NextContinuationToken>([^<]*)<")

_Answer = TypeVar("_Answer")


@frozen(kw_only=True)
class Location:
    """Where objects are.

    Attributes:
        base: The URL before their names, quoted.
        root: The URL of the bucket.
        prefix: Of their names.
        region: Which server is meant; it is signed.
    """

    base: str
    root: str
    prefix: str
    region: str


def locate(address: str) -> Location:
    """Reads the URL of a place. Raises ConfigurationError."""
    region = read_region()
    parts = urlsplit(address)
    if parts.scheme == "s3":
        bucket, prefix = parts.netloc, parts.path
        host = f"s3.{region}.amazonaws.com"
        # A certificate for *.host does not hold for a name with further dots.
        root = f"https://{host}/{bucket}" if "." in bucket else f"https://{bucket}.{host}"
    else:
        bucket, _, prefix = parts.path.strip("/").partition("/")
        root = f"{parts.scheme.removeprefix('s3+')}://{parts.netloc}/{bucket}"
    if not _BUCKET.fullmatch(bucket) or (parts.scheme != "s3" and not parts.hostname):
        raise ConfigurationError.at("store", f"{address!r} names no bucket for content.")
    prefix = unquote(prefix).strip("/")
    prefix += "/" if prefix else ""
    return Location(base=f"{root}/{quote(prefix)}", root=root, prefix=prefix, region=region)


class _Found(NamedTuple):
    size: int
    body: bytes
    headers: Mapping[str, str]


def read_list(page: str) -> Iterator[tuple[str, datetime, int]]:
    """Reads the names, times and sizes of objects of what a server lists."""
    for told in re.findall(r"<Contents>(.*?)</Contents>", page, re.DOTALL):
        said = dict(re.findall(r"<(Key|LastModified|Size)>([^<]*)</", told))
        if len(said) == 3:
            moment = datetime.fromisoformat(said["LastModified"])
            yield unescape(said["Key"]), moment, int(said["Size"])


@define(eq=False)
class ObjectPlace:
    """A part of a bucket; see :class:`.places.ContentPlace`."""

    address: str
    _location: Location
    _clock: Clock = attrs.field(factory=Clock)
    _transport: DirectTransport | None = None
    _ring: KeyRing | None = None

    def put(self, content_id: str, data: bytes, *, mime_type: str, name: str | None) -> None:
        """Keeps the data; what a file was called is known by the database alone."""
        if len(data) > CONTENT_BYTES:
            raise StoreError(
                path=self.address,
                detail=f"The content has {len(data):,} bytes; {self.address} takes "
                f"{CONTENT_BYTES:,} at most.",
            )
        kind = mime_type if re.fullmatch(r"[!-~]+", mime_type) else "application/octet-stream"
        self._ask("PUT", ensure_content_id(content_id), {"content-type": kind}, data, content_id)

    def has(self, content_id: str, size: int) -> bool:
        """Tells whether the data are there."""
        found = self._ask("HEAD", ensure_content_id(content_id))
        return found is not None and found.size == size

    def read(self, content_id: str) -> bytes:
        """Returns the data, proven."""
        found = self._ask("GET", ensure_content_id(content_id))
        if found is None:
            raise describe_missing(content_id, self.address)
        if compute_content_id(found.body) != content_id:
            raise CorruptionError(
                path=f"{self.address} content {content_id}",
                detail="The data are not those which the id names.",
                remedy="Restore the object from a backup.",
            )
        return found.body

    def remove(self, content_id: str) -> None:
        """Removes the data."""
        self._ask("DELETE", ensure_content_id(content_id))

    def sweep(self) -> None:
        """Does nothing: an object is there whole, or not at all."""

    def claim(self, mark: str) -> str:
        """Writes the mark into an object of its own; of two who do so at once one is heeded."""
        if known := self.read_mark():
            return known
        self._ask("PUT", MARKER, {"if-none-match": "*"}, mark.encode())
        return self.read_mark()

    def read_mark(self) -> str:
        """Reads the object that says whose the place is."""
        found = self._ask("GET", MARKER)
        return "" if found is None else found.body.decode("utf-8", "replace")

    def survey(self) -> Iterator[PlacedBytes]:
        """Reads the list of the objects, a thousand at a time."""
        marker = self._ask("HEAD", MARKER)
        if marker is None:
            return
        marked = parsedate_to_datetime(marker.headers["last-modified"])
        asked = {
            "list-type": "2",
            "prefix": self._location.prefix,
            "delimiter": "/",
            "max-keys": _PAGE,
        }
        while asked:
            url = f"{self._location.root}/?{urlencode(asked, quote_via=quote)}"
            listed = self._ask("GET", url=url)
            if listed is None:
                return
            page = listed.body.decode()
            for key, moment, size in read_list(page):
                name = key.removeprefix(self._location.prefix)
                # The time of a list has fractions of a second, that of a head has none.
                if is_content_id(name) and moment >= marked:
                    age = (datetime.now(UTC) - moment).total_seconds()
                    yield PlacedBytes(name, size, age)
            token = _TOKEN.search(page)
            if token is None:
                return
            asked["continuation-token"] = unescape(token[1])

    def _ask(
        self,
        method: str,
        name: str = "",
        headers: dict[str, str] | None = None,
        data: bytes = b"",
        digest: str = "",
        *,
        url: str = "",
    ) -> _Found | None:
        """Asks for an object, or for what another URL says; ``None`` where there is none.

        Each of the methods may be repeated without harm.
        """
        url = url or f"{self._location.base}{name}"
        digest = digest or (compute_content_id(data) if data else _EMPTY)
        given = {**(headers or {}), "accept-encoding": "identity"}

        async def send() -> _Found | None:
            key = await self._access_ring().access()
            signed = sign(
                method,
                url,
                given,
                key,
                digest=digest,
                region=self._location.region,
                moment=datetime.now(UTC),
            )
            request = WireRequest(method=method, url=url, headers=signed, body=data)
            async with await self._access_transport().send(request) as exchange:
                if 200 <= exchange.status < 300:
                    body = await exchange.read()
                    size = exchange.headers.get("content-length", "")
                    return _Found(
                        int(size) if size.isdigit() else len(body), body, exchange.headers
                    )
                if "if-none-match" in given and exchange.status in (409, 412):
                    return None  # it is there: somebody was faster
                said = await _read_said(exchange.read)
                is_gone = exchange.status == 404 and said.get("Code") in (None, "NoSuchKey")
                if is_gone and method != "PUT":
                    return None
                sent = [each for each in signed.values() if isinstance(each, Secret)]
                raise clean_error(_produce_error(exchange.status, said), [key.secret, *sent])

        policy = RetryPolicy.of(Limits())
        return self._perform(lambda: repeat(send, policy, self._clock))

    def _perform(self, function: Callable[[], Awaitable[_Answer]]) -> _Answer:
        # A portal of its own: who stores things may be behind the one of the synchronous face.
        try:
            return access_portal(_PORTAL).call(function)
        except StoreError:
            raise
        except ProviderError as error:
            kind = StoreUnavailableError if error.is_retryable else StoreError
            remedy = _REMEDIES.get(error.vendor_code or "", "")
            detail = f"{self.address}: {error.detail.rstrip('.')}."
            raise kind(path=self.address, detail=detail, remedy=remedy) from error
        except ConverseError as error:
            detail = f"{self.address} cannot be used: {error.describe()}"
            raise StoreUnavailableError(
                path=self.address, detail=detail, remedy=error.remedy
            ) from error

    def _access_transport(self) -> DirectTransport:
        """Returns the connections; called behind the portal alone."""
        if self._transport is None:
            for name in KEYS:
                remember_key(name)
            limits = Limits(request_bytes=CONTENT_BYTES, response_bytes=CONTENT_BYTES)
            self._transport = DirectTransport(limits=limits, timeouts=TIMEOUTS)
        return self._transport

    def _access_ring(self) -> KeyRing:
        """Returns who knows the key; called behind the portal alone."""
        if self._ring is None:
            near = DirectTransport(limits=Limits(), trust_environment=False)
            self._ring = KeyRing(self._access_transport(), near)
        return self._ring


_REMEDIES: Final = {
    "AccessDenied": "Let this key read, write and delete objects of the bucket.",
    "InvalidAccessKeyId": "Check AWS_ACCESS_KEY_ID.",
    "NoSuchBucket": "Make the bucket, or name another one.",
    "RequestTimeTooSkewed": "Set the clock of this machine.",
    "SignatureDoesNotMatch": "Check AWS_SECRET_ACCESS_KEY, and AWS_REGION.",
}


async def _read_said(read: Callable[[int], Awaitable[bytes]]) -> dict[str, str]:
    """Reads what a server says of an error: a document of XML, of which two elements count."""
    try:
        body = await read(_ERROR_BYTES)
    except LimitError:
        return {"Message": "an error that is too long"}
    return {
        name.decode(): " ".join(text.decode("utf-8", "replace").split())
        for name, text in _SAID.findall(body)
    }


def _produce_error(status: int, said: dict[str, str]) -> ProviderError:
    fault = _FAULTS.get(status, ProviderFault.SERVER if status >= 500 else ProviderFault.UNKNOWN)
    code, message = said.get("Code", ""), said.get("Message", "")
    words = ": ".join(filter(None, (code, message))) or "it gave no reason"
    printable = "".join(each if each.isprintable() else "?" for each in words)
    return ProviderError(
        fault=fault, status=status, vendor_code=code, detail=f"status {status}, {printable}"
    )
