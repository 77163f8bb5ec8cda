"""MCP servers as ensembles: programs that are started, or addresses that are reached over HTTP.

Both eras of the protocol are spoken, with the official package ``mcp``, which is imported when
the first server is connected and nowhere else in this package. May import the other
invocables, the framing of lines, what a server says, and what a model and its reactors
are. Refuses to know which model answers a server's question, and who is asked for an approval
or a value: they are handed in.
"""

from __future__ import annotations

from vibe_llms.laziness import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.invocables.mcp.answers import AnswerLimits, Answers
    from vibe_llms.invocables.mcp.connections import Wiring
    from vibe_llms.invocables.mcp.elicitation import (
        Action,
        ElicitationAnswer,
        Elicitor,
        Field,
        Question,
    )
    from vibe_llms.invocables.mcp.ensembles import McpEnsemble, produce_mcp_ensemble
    from vibe_llms.invocables.mcp.oauth.settings import Authorizer, OAuthSettings, TellingAuthorizer
    from vibe_llms.invocables.mcp.resources import PromptEntry, ResourceEntry, Shelf
    from vibe_llms.invocables.mcp.settings import McpServer, read_servers

__all__ = [
    "Action",
    "AnswerLimits",
    "Answers",
    "Authorizer",
    "ElicitationAnswer",
    "Elicitor",
    "Field",
    "McpEnsemble",
    "McpServer",
    "OAuthSettings",
    "PromptEntry",
    "Question",
    "ResourceEntry",
    "Shelf",
    "TellingAuthorizer",
    "Wiring",
    "produce_mcp_ensemble",
    "read_servers",
]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "Action": "elicitation",
        "ElicitationAnswer": "elicitation",
        "AnswerLimits": "answers",
        "Answers": "answers",
        "Authorizer": "oauth.settings",
        "Elicitor": "elicitation",
        "Field": "elicitation",
        "McpEnsemble": "ensembles",
        "McpServer": "settings",
        "OAuthSettings": "oauth.settings",
        "PromptEntry": "resources",
        "Question": "elicitation",
        "ResourceEntry": "resources",
        "Shelf": "resources",
        "TellingAuthorizer": "oauth.settings",
        "Wiring": "connections",
        "produce_mcp_ensemble": "ensembles",
        "read_servers": "settings",
    },
)
