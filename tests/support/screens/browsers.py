"""Headless Chromium, controlled over its debugging protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

_ADDRESS = re.compile(rb"DevTools listening on (ws://\S+)")
_SECONDS = 60
_KEY_CODES = {
    "Enter": 13,
    "Tab": 9,
    " ": 32,
    "Escape": 27,
    "PageUp": 33,
    "PageDown": 34,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}


class Tab:
    """One page.

    Attributes:
        complaints: Errors and warnings of the console, and uncaught exceptions.
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
        """URLs of all requests that the page's content policy did not block."""
        return list(self._requests.values())

    def forget(self) -> None:
        """Forget earlier requests and complaints."""
        self._requests.clear()
        self.complaints.clear()

    async def call(self, method: str, **parameters: Any) -> Any:
        """Send a command to the browser; return its result."""
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        await self._socket.send_json(message)
        return await asyncio.wait_for(answer, _SECONDS)

    async def listen(self) -> None:
        """Receive messages of the browser until it ends."""
        async for message in self._socket:
            fields = message.json()
            if "id" in fields:
                answer = self._waiting.pop(fields["id"])
                if "error" in fields:
                    answer.set_exception(RuntimeError(str(fields["error"])))
                else:
                    answer.set_result(fields["result"])
                continue
            self._receive_event(fields["method"], fields.get("params", {}))

    def _receive_event(self, method: str, parameters: dict[str, Any]) -> None:
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
        """Open a file, and wait until it is loaded."""
        await self.visit(path.as_uri())

    async def visit(self, url: str) -> None:
        """Open a URL, and wait until it is loaded."""
        loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._events.append(("Page.loadEventFired", loaded))
        await self.call("Page.navigate", url=url)
        await asyncio.wait_for(loaded, _SECONDS)

    async def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
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
        """Return the accessibility tree: role, name and properties of each node."""
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

    async def press(self, key: str, *, shift: bool = False, control: bool = False) -> None:
        """Press and release a key, with modifiers."""
        for kind in ("keyDown", "keyUp"):
            await self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=_KEY_CODES.get(key) or ord(key.upper()),
                modifiers=2 * control + 8 * shift,
                text="\r" if key == "Enter" and kind == "keyDown" else "",
            )

    async def type(self, text: str) -> None:
        """Insert text at the keyboard focus."""
        await self.call("Input.insertText", text=text)

    async def click(self, selector: str) -> None:
        """Click the first element that matches, when it is visible and enabled."""
        found = f"document.querySelector({json.dumps(selector)})"
        await self.wait_for(f"{found}?.offsetParent && !{found}.disabled")
        await self.evaluate(f"{found}.click()")

    async def wait_for_text(self, text: str, place: str = "main") -> None:
        """Wait until an element contains a text."""
        found = f"document.querySelector({json.dumps(place)})"
        await self.wait_for(f"{found}?.textContent.includes({json.dumps(text)})")

    async def look(self, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Set the size and the color scheme of the page."""
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
        """Save a screenshot of the whole page."""
        answer = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))


@contextlib.asynccontextmanager
async def open_browser(folder: Path) -> AsyncIterator[Tab]:
    """Start the browser with an empty page; end it with the block."""
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
                tab = Tab(socket, "")
                listening = asyncio.ensure_future(tab.listen())
                try:
                    await _attach(tab)
                    yield tab
                finally:
                    with contextlib.suppress(Exception):
                        await tab.call("Browser.close")
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
    raise AssertionError("Chromium ended before it printed its address.")


async def _attach(tab: Tab) -> None:
    targets = (await tab.call("Target.getTargets"))["targetInfos"]
    page = next(each["targetId"] for each in targets if each["type"] == "page")
    attached = await tab.call("Target.attachToTarget", targetId=page, flatten=True)
    tab._session = attached["sessionId"]
    for domain in ("Page", "Network", "Runtime", "Log"):
        await tab.call(f"{domain}.enable")
