"""Conversations as documents that leave the house, Markdown, JSON, HTML; and those that come in.

May import the messages, the stores' protocols and the errors; a Markdown parser when HTML is
written. Exporters refuse to know files, where data lie, and how documents are delivered: functions
return a text. Media come from a content store that the caller hands in.
"""

from __future__ import annotations

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.conversations.exchange.documents import import_conversations
    from vibe_llms.conversations.exchange.json_documents import export_json, import_json
    from vibe_llms.conversations.exchange.markdown import export_markdown
    from vibe_llms.conversations.exchange.pages import export_html

__all__ = [
    "export_html",
    "export_json",
    "export_markdown",
    "import_conversations",
    "import_json",
]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "export_html": "pages",
        "export_json": "json_documents",
        "export_markdown": "markdown",
        "import_conversations": "documents",
        "import_json": "json_documents",
    },
)
