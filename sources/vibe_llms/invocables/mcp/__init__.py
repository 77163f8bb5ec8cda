"""MCP servers as ensembles: programs that are started, or addresses that are reached over HTTP.

Both eras of the protocol are spoken, with the official package ``mcp``, which is imported when
the first server is connected and nowhere else in this package. May import the other
invocables, the framing of lines, and the guardians of programs. Refuses to know models and who
is asked for an approval: what a server may ask of us is handed in as callbacks.
"""

from __future__ import annotations

from vibe_llms.laziness import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.invocables.mcp.connections import Wiring
    from vibe_llms.invocables.mcp.ensembles import McpEnsemble
    from vibe_llms.invocables.mcp.servers import read_servers
    from vibe_llms.invocables.mcp.settings import McpServer

__all__ = ["McpEnsemble", "McpServer", "Wiring", "read_servers"]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "McpEnsemble": "ensembles",
        "McpServer": "settings",
        "Wiring": "connections",
        "read_servers": "servers",
    },
)
