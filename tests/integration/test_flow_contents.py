"""What entries of a task's registry name on the web comes as text, once, within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from vibe_llms.exceptions import RequestError
from vibe_llms.flows import registry_contents
from vibe_llms.flows.registry_contents import RegistryContents
from vibe_llms.flows.tasks import RegistryEntry, ResourceRegistry
from vibe_llms.invocables.pages.getting import PageBounds

PUBLIC = "127.0.0.2"
"""Counts as public in these tests; all else on this machine counts as private."""


def produce_contents(*addresses: str, **named: Any) -> RegistryContents:
    """Makes those of entries ``e0``, ``e1`` and so on, at these addresses."""
    entries = [RegistryEntry(name=f"e{i}", source_url=each) for i, each in enumerate(addresses)]
    return RegistryContents(registry=ResourceRegistry(entries=entries), **named)


Handler = Callable[[web.Request], web.StreamResponse]


@asynccontextmanager
async def serving(handle: Handler) -> AsyncIterator[str]:
    """A server; gives the beginning of its addresses."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(request, web.BaseRequest)
        return handle(request)  # type: ignore[arg-type]

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    try:
        await web.TCPSite(runner, PUBLIC, 0).start()
        yield f"http://site.example:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def look_up(host: str, port: int) -> list[str]:
    """Resolves what the tests know."""
    return {"site.example": [PUBLIC], "inside.example": ["127.0.0.1"]}.get(host, [])


WEB: dict[str, Any] = {
    "bounds": PageBounds(schemes=("http",)),
    "resolve": look_up,
    "is_allowed": lambda address: address == PUBLIC,
}
"""As https in these tests."""

PAGES = {
    "/page": ("<title>T</title><h1>Cells</h1><p>They <b>divide</b>.", "text/html"),
    "/text": ("plain ü", "text/plain; charset=utf-8"),
    "/picture": ("x", "image/png"),
    "/large": ("x" * 2_000, "text/plain"),
    "/big": ("é" * 600, "text/plain; charset=utf-8"),
}


def serve(request: web.Request) -> web.StreamResponse:
    """Answers with a page, a redirection or nothing."""
    if request.path in PAGES:
        body, kind = PAGES[request.path]
        return web.Response(body=body.encode(), headers={"Content-Type": kind})
    if request.path == "/away":
        return web.Response(status=302, headers={"Location": "https://site.example/"})
    if request.path == "/inside":
        return web.Response(status=302, headers={"Location": "http://inside.example/"})
    return web.Response(status=404, text="nothing")


async def test_pages_are_fetched_as_text() -> None:
    """HTML as Markdown, other text as it is."""
    async with serving(serve) as site:
        found = await produce_contents(f"{site}/page", f"{site}/text", **WEB).acquire(["e0", "e1"])
    assert found == {"e0": "# T\n\n# Cells\n\nThey **divide**.", "e1": "plain ü"}


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/absent", "answered with status 404"),
        ("/picture", "not a text (image/png)"),
        ("/large", "larger than the limit of 1500 bytes"),
        ("/big", "larger than the limit of 1000 bytes"),
        ("/away", "redirects to an address"),
        ("/inside", "not on the public network"),
    ],
)
async def test_a_page_that_cannot_be_had_is_an_error(
    path: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it redirects to what may not be had."""
    monkeypatch.setattr(registry_contents, "CONTENT_BYTES", 1_000)
    bounds = PageBounds(schemes=("http",), page_bytes=1_500)
    async with serving(serve) as site:
        with pytest.raises(RequestError) as caught:
            await produce_contents(f"{site}{path}", **{**WEB, "bounds": bounds}).acquire(["e0"])
    assert words in caught.value.detail


async def test_a_page_that_does_not_come_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There is a limit."""

    async def wait(host: str, port: int) -> list[str]:
        await asyncio.sleep(60)
        return []

    monkeypatch.setattr(registry_contents, "PAGE_SECONDS", 0.01)
    with pytest.raises(RequestError, match="did not load within"):
        await produce_contents("http://x.example", **{**WEB, "resolve": wait}).acquire(["e0"])


async def test_each_content_is_had_once() -> None:
    """However often and from how many branches it is wanted; what failed is tried again."""
    asked: list[str] = []

    def count(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        if request.path == "/shy" and asked.count("/shy") == 1:
            return web.Response(status=503)
        return web.Response(text=request.path)

    async with serving(count) as site:
        found = produce_contents(f"{site}/a", f"{site}/b", f"{site}/shy", **WEB)
        await asyncio.gather(found.acquire(["e0"]), found.acquire(["e1", "e0"]))
        with pytest.raises(RequestError, match="503"):
            await found.acquire(["e2", "e0"])
        assert await found.acquire(["e0", "e2"]) == {"e0": "/a", "e2": "/shy"}
    assert sorted(asked) == ["/a", "/b", "/shy", "/shy"]
