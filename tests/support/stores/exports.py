"""Exports in the formats of services, for tests of imports."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[2] / "fixtures" / "exports"


def write_zip(path: Path, documents: dict[str, Any]) -> Path:
    """Write a ZIP archive; bytes are stored unchanged, other values as JSON."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in documents.items():
            archive.writestr(name, data if isinstance(data, bytes) else json.dumps(data))
    return path


def write_database(path: Path, version: str) -> Path:
    """Create the database of a version of ``llm``, without its search index."""
    with closing(sqlite3.connect(path)) as database:
        database.executescript((FIXTURES / f"llm-{version}.sql").read_text("utf-8"))
    return path


def make_chatgpt_node(
    node: str, parent: str | None, role: str, content: Any, *children: str, **more: Any
) -> dict[str, Any]:
    """Create a node of ChatGPT's tree; ``content`` may be a text."""
    if isinstance(content, str):
        content = {"content_type": "text", "parts": [content]}
    author = {"role": role, "name": more.pop("name", None), "metadata": {}}
    message = {
        "id": node,
        "author": author,
        "create_time": more.pop("at", 1_700_000_000.25),
        "content": content,
        "status": "finished_successfully",
        "metadata": more.pop("metadata", {}),
        "recipient": more.pop("recipient", "all"),
    }
    return {"id": node, "message": message, "parent": parent, "children": list(children)}


def make_chatgpt(*nodes: dict[str, Any], current: str | None = None, **more: Any) -> dict[str, Any]:
    """Create a conversation of ChatGPT with a root before the nodes."""
    root = {"id": "root", "message": None, "parent": None, "children": []}
    return {
        "title": "A walk",
        "create_time": 1_700_000_000.0,
        "update_time": 1_700_000_100.0,
        "mapping": {node["id"]: node for node in (root, *nodes)},
        "current_node": current or nodes[-1]["id"],
        "conversation_id": "6819-aa",
        "default_model_slug": "gpt-5",
        **more,
    }


def make_claude(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Create a conversation of claude.ai."""
    return {
        "uuid": "8f3a-bb",
        "name": "A walk",
        "summary": "",
        "created_at": "2026-02-14T10:04:22.000000Z",
        "updated_at": "2026-02-14T10:22:41.000000Z",
        "account": {"uuid": "acc"},
        "chat_messages": list(messages),
        **more,
    }


def make_claude_message(uuid: str, sender: str, *blocks: Any, **more: Any) -> dict[str, Any]:
    """Create a message of claude.ai; a block may be a text."""
    content = [{"type": "text", "text": each} if isinstance(each, str) else each for each in blocks]
    return {
        "uuid": uuid,
        "text": " ".join(each for each in blocks if isinstance(each, str)),
        "content": content,
        "sender": sender,
        "created_at": "2026-02-14T10:05:00Z",
        "updated_at": "2026-02-14T10:05:00Z",
        "attachments": [],
        "files": [],
        **more,
    }
