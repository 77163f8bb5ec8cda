"""Texts of fetched pages."""

from __future__ import annotations

from typing import Final

from vibe_llms.invocables.pages.getting import Page
from vibe_llms.invocables.pages.markdown import write_markdown
from vibe_llms.invocables.pages.page_bodies import decode
from vibe_llms.invocables.threads import run_in_thread

_INSPECTED_CHARACTERS: Final = 1_024
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXTS: Final = (
    *("json", "xml", "javascript", "ecmascript", "yaml", "toml", "x-sh", "sql", "x-ndjson"),
    *("rtf", "graphql", "x-www-form-urlencoded"),
)


def is_readable(kind: str, status: int) -> bool:
    """Return whether a media type is text; the status does not matter."""
    return kind.startswith("text/") or any(
        kind.endswith(f"/{word}") or kind.endswith(f"+{word}") for word in _TEXTS
    )


async def read_text(page: Page) -> str | None:
    """Return a page as text, HTML as Markdown; ``None`` if it is not text."""
    return await run_in_thread(
        lambda: _write(page)
    )  # which takes limited time, because the size is limited


def _write(page: Page) -> str | None:
    if not is_readable(page.kind, page.status):
        return None
    text = decode(page.body.data, page.charset)
    # Servers send files of unknown types as text/plain, even programs and pictures.
    if "\0" in text[:_INSPECTED_CHARACTERS]:
        return None
    return write_markdown(text, page.url) if page.kind in _HTML else text
