"""Serves an ASGI 3 application over HTTP/1.1, within bounds.

A ``Server`` serves in the event loop that is there; ``run`` does all that a program does besides:
signals, worker processes, and what is said when it is ready. ``ServerSettings`` is the
``[server]`` table of a file.

Beyond ASGI an application is offered two things. ``scope["extensions"]["vibe_llms.disconnect"]``
is a function that takes what is to be called, once and in the event loop, as soon as the client has
gone. So no task needs to wait in ``receive`` for that; under other servers, one has to.
``vibe_llms.drain``, in the scope of the lifespan, is the same for the moment in which the server
begins to end. Refuses to know what is served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.foundation.lazy_imports import produce_attribute_access

if TYPE_CHECKING:
    from vibe_llms.daemons.server.binding import check_binding
    from vibe_llms.daemons.server.running import run, serve
    from vibe_llms.daemons.server.serving import Server
    from vibe_llms.daemons.server.settings import ServerSettings, override

__all__ = ["Server", "ServerSettings", "check_binding", "override", "run", "serve"]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "Server": "serving",
        "ServerSettings": "settings",
        "check_binding": "binding",
        "override": "settings",
        "run": "running",
        "serve": "running",
    },
)
