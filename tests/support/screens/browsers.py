"""Chromium without a window, told what to do over its debugging protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

_ADDRESS = re.compile(rb"DevTools listening on (ws://\S+)")
_SECONDS = 60


class Tab:
    """One page.

    Attributes:
        complaints: What the browser or the page said in the console, and errors nobody caught.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, session: str) -> None:
        self._requests: dict[str, str] = {}
        self.complaints: list[str] = []
        self._socket, self._session = socket, session
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._events: list[tuple[str, asyncio.Future[None]]] = []

    @property
    def requests(self) -> list[str]:
        """The addresses of all that was asked for, and not refused by the page's policy."""
        return list(self._requests.values())

    def forget(self) -> None:
        """Forget what was asked for and complained about before."""
        self._requests.clear()
        self.complaints.clear()

    async def call(self, method: str, **parameters: Any) -> Any:
        """Says something to the browser; returns what it answers."""
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        await self._socket.send_json(message)
        return await asyncio.wait_for(answer, _SECONDS)

    async def listen(self) -> None:
        """Hears what the browser says, until it is gone."""
        async for message in self._socket:
            said = message.json()
            if "id" in said:
                answer = self._waiting.pop(said["id"])
                if "error" in said:
                    answer.set_exception(RuntimeError(str(said["error"])))
                else:
                    answer.set_result(said["result"])
                continue
            self._hear(said["method"], said.get("params", {}))

    def _hear(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self._requests[parameters["requestId"]] = parameters["request"]["url"]
        elif method == "Network.loadingFailed" and parameters.get("blockedReason") == "csp":
            self._requests.pop(parameters["requestId"], None)
        elif method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.complaints.append(str(details.get("exception", details)))
        elif method == "Log.entryAdded":
            self.complaints.append(parameters["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.complaints.append(str(parameters["args"]))
        for expected, future in self._events:
            if expected == method and not future.done():
                future.set_result(None)

    async def open(self, path: Path) -> None:
        """Goes to a file, and waits until it is loaded."""
        await self.visit(path.as_uri())

    async def visit(self, url: str) -> None:
        """Goes to an address, and waits until it is loaded."""
        loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._events.append(("Page.loadEventFired", loaded))
        await self.call("Page.navigate", url=url)
        await asyncio.wait_for(loaded, _SECONDS)

    async def evaluate(self, expression: str) -> Any:
        """Return what an expression is in the page."""
        answer = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def wait_for(self, expression: str) -> None:
        """Wait until an expression is true in the page, also across reloads."""
        async with asyncio.timeout(_SECONDS):
            while True:
                with contextlib.suppress(AssertionError, RuntimeError):
                    if await self.evaluate(f"Boolean({expression})"):
                        return
                await asyncio.sleep(0.02)

    async def survey_tree(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Return what a screen reader is told of the page: role, name and properties of each."""
        nodes = (await self.call("Accessibility.getFullAXTree"))["nodes"]
        return [
            (
                node["role"]["value"],
                node.get("name", {}).get("value", ""),
                {each["name"]: each["value"].get("value") for each in node.get("properties", ())},
            )
            for node in nodes
            if not node.get("ignored")
        ]

    async def press(self, key: str) -> None:
        """Press a key, and lets it go."""
        codes = {"Enter": 13, "Tab": 9, " ": 32}
        for kind in ("keyDown", "keyUp"):
            await self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=codes[key],
                text="\r" if key == "Enter" and kind == "keyDown" else "",
            )

    async def look(self, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Give the page a size and a colour scheme."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[feature])

    async def shoot(self, path: Path) -> None:
        """Take a picture of all of the page."""
        answer = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))


@contextlib.asynccontextmanager
async def open_browser(folder: Path) -> AsyncIterator[Tab]:
    """Start the browser with one empty page; it ends with the block."""
    program = shutil.which("chromium")
    assert program is not None, "The Debian package chromium has to be installed."
    process = await asyncio.create_subprocess_exec(
        program,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--no-first-run",
        "--remote-debugging-port=0",
        f"--user-data-dir={folder / 'profile'}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with aiohttp.ClientSession() as session:
            address = await asyncio.wait_for(_find_address(process), _SECONDS)
            async with session.ws_connect(address, max_msg_size=0) as socket:
                yield_ = Tab(socket, "")
                listening = asyncio.ensure_future(yield_.listen())
                try:
                    await _attach(yield_)
                    yield yield_
                finally:
                    with contextlib.suppress(Exception):
                        await yield_.call("Browser.close")
                    listening.cancel()
                    await asyncio.gather(listening, return_exceptions=True)
    finally:
        with contextlib.suppress(ProcessLookupError, TimeoutError):
            await asyncio.wait_for(process.wait(), 5)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _find_address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    async for line in process.stderr:
        if found := _ADDRESS.search(line):
            return found[1].decode()
    raise AssertionError("Chromium ended before it said where it listens.")


async def _attach(tab: Tab) -> None:
    targets = (await tab.call("Target.getTargets"))["targetInfos"]
    page = next(each["targetId"] for each in targets if each["type"] == "page")
    attached = await tab.call("Target.attachToTarget", targetId=page, flatten=True)
    tab._session = attached["sessionId"]
    for domain in ("Page", "Network", "Runtime", "Log"):
        await tab.call(f"{domain}.enable")
