"""Local redirect target of the browser after an authorization."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

HOST: Final = "127.0.0.1"  # RFC 8252, section 7.3: the number rather than the name "localhost"
PATH: Final = "/callback"

_LINE_BYTES: Final = 16_384
_READ_SECONDS: Final = 10.0
_CONNECTIONS_LIMIT: Final = 8
"""Maximum number of open connections; a browser opens two or three."""

_PAGE: Final = (
    "<!doctype html><meta charset=utf-8><title>vibe-llms</title><p>{}<p>You can close this "
    "window.</p>"
)


class Loopback:
    """Listener on a local port, for one answer.

    An answer must contain the issued state, which is secret, so that other requests of the browser
    are ignored.
    """

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._state = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._answer: asyncio.Future[Mapping[str, str]] | None = None

    async def listen(self, port: int = 0) -> None:
        """Start listening.

        Args:
            port: The port; 0 for any free port.

        Raises:
            OSError: The port is in use.
        """
        self._server = await asyncio.start_server(self._receive, HOST, port, limit=_LINE_BYTES)

    @property
    def address(self) -> str:
        """The address to redirect a browser to."""
        if self._server is None:
            raise RuntimeError("The listener is not running.")
        return f"http://{HOST}:{self._server.sockets[0].getsockname()[1]}{PATH}"

    def expect(self, state: str) -> asyncio.Future[Mapping[str, str]]:
        """Set the state that the answer must contain; return a future with its parameters."""
        self._state = state
        self._answer = asyncio.get_running_loop().create_future()
        return self._answer

    def accept(self, address: str) -> bool:
        """Accept a redirect address if it is the expected answer."""
        parameters = dict(parse_qsl(urlsplit(address).query, keep_blank_values=True))
        # Before a state is set, even an answer with an empty state must not match.
        if self._answer is None or not self._state or parameters.get("state") != self._state:
            return False
        if not self._answer.done():
            self._answer.set_result(parameters)
        return True

    async def close(self) -> None:
        """Stop listening. The future of :meth:`expect` stays open: its caller has a timeout."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        tasks = set(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)  # the browser is still receiving its page
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        # Any program on this machine, and any page in its browser, may connect to this port.
        if task is None or len(self._tasks) >= _CONNECTIONS_LIMIT:
            writer.transport.abort()
            return
        self._tasks.add(task)
        try:
            async with asyncio.timeout(_READ_SECONDS):
                line = await reader.readline()
                while (await reader.readline()).strip():
                    pass  # the headers are irrelevant
                status, text = self._handle_request(line.decode("latin-1"))
                writer.write(_compose_answer(status, text))
                await writer.drain()
        except (OSError, ValueError, TimeoutError):
            pass  # a client that does not send its request
        finally:
            self._tasks.discard(task)
            writer.close()

    def _handle_request(self, line: str) -> tuple[str, str]:
        method, _, rest = line.partition(" ")
        target = rest.partition(" ")[0]
        # Browsers also request other paths, such as the icon of the page.
        if method != "GET" or urlsplit(target).path != PATH:
            return "404 Not Found", "Page not found."
        if self.accept(target):
            return "200 OK", "The answer has arrived."
        return "400 Bad Request", "This is not the expected answer."


def _compose_answer(status: str, text: str) -> bytes:
    body = _PAGE.format(text).encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\n"
        # The address of this page contains the code, so the page must not load anything: other
        # servers would receive the address.
        "Content-Security-Policy: default-src 'none'\r\nReferrer-Policy: no-referrer\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
