"""Server program that tests send signals to: ``WORKERS [SETTING=VALUE …]``.

It prints its URL when it is ready, and a line for each worker that reloads or ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from vibe_llms.daemons.server import ServerSettings, override, run
from vibe_llms.exceptions import ConverseError

Message = MutableMapping[str, Any]


async def application(
    scope: Message,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    """Send the id of the process, after the number of seconds in the path."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                print("ended", flush=True)
                return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    await asyncio.sleep(float(scope["path"][1:] or 0))
    await send({"type": "http.response.body", "body": b"%d" % os.getpid()})


def _produce() -> Any:
    if os.environ.get("BREAKS"):
        raise ConverseError(detail="It cannot begin")
    return application


def main() -> None:
    """Run the server."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    values = dict(each.split("=") for each in sys.argv[2:])
    settings = override(
        ServerSettings(port=0, workers=int(sys.argv[1])),
        {name: float(value) if "." in value else int(value) for name, value in values.items()},
    )
    try:
        run(
            _produce,
            settings,
            is_guarded=False,
            on_ready=lambda urls: print(urls[0], flush=True),
            on_reload=lambda _: os.write(1, b"reloaded\n"),
        )
    except ConverseError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
