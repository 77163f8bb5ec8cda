"""Export of conversations as Markdown, JSON and HTML; import of these, and from other programs.

May import the messages, the stores' protocols and the errors; a Markdown parser when HTML is
written. Exporters must not know files: they return a text, and the caller passes them the content
store with the bytes of media.
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
