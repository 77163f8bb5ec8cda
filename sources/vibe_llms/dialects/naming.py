"""Names for what a vendor leaves without one, or gives one that is taken."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from vibe_llms.messages.contents import FileContent

TYPES_BY_SUFFIX: Final = {
    "csv": "text/csv",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "html": "text/html",
    "json": "application/json",
    "md": "text/markdown",
    "pdf": "application/pdf",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "txt": "text/plain",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "xml": "application/xml",
}


def name_file(content: FileContent) -> str:
    """Returns a name for a file that needs one: vendors go by its suffix."""
    for suffix, mime_type in TYPES_BY_SUFFIX.items():
        if mime_type == content.mime_type:
            return f"document.{suffix}"
    return "document"


def find_free_name(name: str, taken: Container[str]) -> str:
    """Returns the name itself, or else with the first number that makes it one of its own."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free
