"""Results of server tools as contents: the same for every vendor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from vibe_llms.dialects.decoding import read_text
from vibe_llms.dialects.extras import read_native
from vibe_llms.messages.contents import Citation, Native, TextualContent


def make_source(
    *, title: str | None = None, url: str | None = None, text: str = "", file_id: str | None = None
) -> TextualContent:
    """Return a page or a file that a tool found: a readable text that cites its source.

    Args:
        title: The title of the page, or the name of the file.
        text: The text that was found.
    """
    lines = [each for each in (title, url, text) if each]
    source = Citation(title=title, url=url, file_id=file_id)
    return TextualContent("\n".join(lines), citations=(source,))


def read_pages(pages: Iterable[Any]) -> list[TextualContent]:
    """Return the pages that a search found, in the form of the vendors: ``title`` and ``url``."""
    return [
        make_source(title=read_text(page.get("title")), url=read_text(page.get("url")))
        for page in pages
        if isinstance(page, Mapping) and read_text(page.get("url"))
    ]


_SERVER_FIELDS: Final = {"mcp_call": "server_label", "mcp_tool_use": "server_name"}
"""Field with the label of the MCP server, by the type of the vendor's call."""


def find_mcp_server(native: Native | None) -> str | None:
    """Return the label of the MCP server of a vendor's call; ``None`` for other calls."""
    if native is None:
        return None
    fields = read_native(native, "call")
    return read_text(fields.get(_SERVER_FIELDS.get(str(fields.get("type")), "")))
