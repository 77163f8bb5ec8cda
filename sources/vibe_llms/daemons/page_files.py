"""Web page of a daemon, served from files of the package.

The files are the same for all users and contain no user data: a user without access sees an empty
page that asks for a key. The pages of all daemons share one folder; each daemon has its own index.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from functools import cached_property, partial
from pathlib import PurePath
from typing import Final

import attrs

from vibe_llms.daemons.arrivals import ensure_host
from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.openapi import ApiOperation
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.routes import Route, write_plain_error
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.package_data import access_data

PAGE_PATH: Final = "/page/"
FACE: Final = "page"

_COMPRESSED: Final = ".gz"
_LEVEL: Final = 6
_LARGEST: Final = 500_000
"""Size from which on a file is not compressed, as that would delay other requests."""

_INDEX_SUFFIX: Final = ".html"
HTML: Final = "text/html; charset=utf-8"
_MEDIA_TYPES: Final[Mapping[str, str]] = {
    _INDEX_SUFFIX: HTML,
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"  # no code makes markup from text
)
_STYLE: Final = re.compile(r'<link rel="stylesheet" href="([\w-]+\.css)">')
PAGE_HEADERS: Final[Mapping[str, str]] = {
    "cache-control": "no-cache",
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


@frozen(kw_only=True, slots=False)
class PageFile:
    """One file of the page.

    Attributes:
        media_type: Media type of the file.
        data: Content of the file; compressed with gzip for a library.
        headers: Further response headers.
        is_compressed: Whether the data are stored in compressed form.
        tag: ETag of the data, for browsers that have cached them.
    """

    media_type: str
    data: bytes
    headers: Mapping[str, str] = PAGE_HEADERS
    is_compressed: bool = False
    tag: str = attrs.field(init=False)

    @tag.default
    def _name(self) -> str:
        return f'"{hashlib.sha256(self.data).hexdigest()[:32]}"'

    @cached_property
    def packed(self) -> bytes:
        """The content, compressed with gzip; when it is first requested."""
        return self.data if self.is_compressed else gzip.compress(self.data, _LEVEL, mtime=0)

    def encode(self, accepted: str) -> tuple[bytes, dict[str, str]]:
        """Return the content and the headers for a client that accepts some encodings."""
        headers = {**self.headers, "vary": "accept-encoding"}
        if "gzip" in accepted and (self.is_compressed or len(self.data) < _LARGEST):
            headers |= {"content-encoding": "gzip", "etag": self.tag}
            return self.packed, headers
        headers["etag"] = f'{self.tag[:-1]}-plain"'
        return gzip.decompress(self.data) if self.is_compressed else self.data, headers


def read_files(index: str) -> dict[str, PageFile]:
    """Read the files of a page, by their paths. Blocks on the disk.

    Args:
        index: Name of the page's HTML file; those of other pages are left out.
    """
    files: dict[str, PageFile] = {}
    for path in sorted(access_data("page").iterdir()):
        name = path.name.removesuffix(_COMPRESSED)
        suffix = PurePath(name).suffix
        media_type = _MEDIA_TYPES.get(suffix)
        if media_type is None or (suffix == _INDEX_SUFFIX and name != index):
            continue
        files[PAGE_PATH + ("" if name == index else name)] = PageFile(
            media_type=media_type, data=path.read_bytes(), is_compressed=name != path.name
        )
    files[PAGE_PATH] = _complete(files)
    return files


def _complete(files: Mapping[str, PageFile]) -> PageFile:
    """Return the HTML file with its style sheets, so that the first paint needs one response.

    The content security policy allows them by their hashes.
    """
    hashes: list[str] = []

    def inline(found: re.Match[str]) -> str:
        style = files[PAGE_PATH + found[1]].data
        hashes.append(f"'sha256-{base64.b64encode(hashlib.sha256(style).digest()).decode()}'")
        return f'<style data-href="{found[1]}">{style.decode("utf-8")}</style>'

    text = _STYLE.sub(inline, files[PAGE_PATH].data.decode("utf-8"))
    policy = _POLICY.replace("style-src", " ".join(["style-src", *hashes]))
    headers = {**PAGE_HEADERS, "content-security-policy": policy}
    return PageFile(media_type=HTML, data=text.encode(), headers=headers)


def produce_page_routes(
    hosts: Collection[str] | None,
    *,
    index: str,
    summary: str,
    further: Mapping[str, Callable[[], PageFile]] | None = None,
) -> list[Route]:
    """Produce the routes of a page.

    Args:
        hosts: Host names of the daemon; ``None`` for any.
        index: Name of the page's HTML file.
        summary: Purpose of the page.
        further: HTML files that are made when they are first requested, by their names.
    """
    produce = partial(Route, method="GET", write_error=write_plain_error, is_admitted=False)

    async def redirect(call: HttpCall, record: CallRecord) -> None:
        record.face = FACE
        ensure_host(call, hosts)
        headers = {**PAGE_HEADERS, "location": "page/"}
        await call.answer(308, b"", headers, content_type="text/html")

    def produce_file_route(path: str, media_type: str, find: Callable[[], PageFile]) -> Route:
        async def answer(call: HttpCall, record: CallRecord) -> None:
            record.face = FACE
            ensure_host(call, hosts)
            data, headers = find().encode(call.headers.get("accept-encoding", ""))
            if call.headers.get("if-none-match") == headers["etag"]:
                await call.begin(304, headers)
                await call.finish()
            else:
                await call.answer(200, data, headers, content_type=media_type)

        return produce(pattern=path, handler=answer, operation=describe(media_type))

    describe = partial(_describe, summary)
    files = read_files(index)
    return [
        produce(pattern="/page", handler=redirect, operation=describe("text/html", status=308)),
        *(
            produce_file_route(PAGE_PATH + name, HTML, find)
            for name, find in (further or {}).items()
        ),
        *(
            produce_file_route(path, file.media_type, partial(files.__getitem__, path))
            for path, file in files.items()
        ),
    ]


def _describe(summary: str, media_type: str, status: int = 200) -> ApiOperation:
    answers: dict[str, JsonObject] = {media_type.partition(";")[0]: {"type": "string"}}
    return ApiOperation(
        summary=summary,
        tag=FACE,
        answers=answers,
        status=status,
        is_hidden=True,
    )
