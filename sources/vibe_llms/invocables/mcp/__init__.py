"""MCP servers as ensembles: programs that are started, or addresses that are reached over HTTP.

Versions of the protocol with sessions (until 2025-11-25) and without them (from 2026-07-28) are
supported with the official package ``mcp``. It is imported when the first server is connected. May
import the other invocables, the
framing of lines, the server settings, and the protocols of models and reactors. The caller passes
in the model, the approver and the person that answer a server's questions.
"""

from __future__ import annotations

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.invocables.mcp.client_answers import Answers
    from vibe_llms.invocables.mcp.elicitation import ElicitationAnswer
    from vibe_llms.invocables.mcp.ensembles import McpEnsemble, produce_mcp_ensemble
    from vibe_llms.invocables.mcp.oauth.settings import OAuthAuthorizer, TellingAuthorizer
    from vibe_llms.invocables.mcp.settings import McpServer

__all__ = [
    "Answers",
    "ElicitationAnswer",
    "McpEnsemble",
    "McpServer",
    "OAuthAuthorizer",
    "TellingAuthorizer",
    "produce_mcp_ensemble",
]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "ElicitationAnswer": "elicitation",
        "Answers": "client_answers",
        "OAuthAuthorizer": "oauth.settings",
        "McpEnsemble": "ensembles",
        "McpServer": "settings",
        "TellingAuthorizer": "oauth.settings",
        "produce_mcp_ensemble": "ensembles",
    },
)
