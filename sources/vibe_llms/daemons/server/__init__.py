"""HTTP/1.1 server for ASGI 3 applications, with limits and timeouts.

A ``Server`` serves in the current event loop. ``run`` is for programs: it adds signals, worker
processes, and a report when the server is ready. ``ServerSettings`` is the ``[server]`` table of a
file.

The server offers two ASGI extensions. ``scope["extensions"]["vibe_llms.disconnect"]`` is a function
that takes a callback, which is called once and in the event loop when the client disconnects. So no
task needs to wait in ``receive`` for that; under other servers, one has to. ``vibe_llms.drain``, in
the scope of the lifespan, reports the start of the shutdown. The server knows nothing of the
application that it serves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.foundation.lazy_imports import produce_attribute_access

if TYPE_CHECKING:
    from vibe_llms.daemons.server.binding import check_binding
    from vibe_llms.daemons.server.launching import run, serve
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
        "run": "launching",
        "serve": "launching",
    },
)
