"""Sessions of coding agents in the shape in which these store them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

PNG: Final = "iVBORw0KGgo="
SESSION: Final = "c7d1fb1a-0885-4d8b-8427-0f09a0c1a94f"


def write_lines(path: Path, *lines: Any) -> Path:
    """Write a file with a JSON object on each line; texts are written as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def make_claude_line(kind: str, uuid: str, parent: str | None, **fields: Any) -> dict[str, Any]:
    """Return a line of Claude Code; later lines have later times."""
    return {
        "parentUuid": parent,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/srv/shop",
        "sessionId": SESSION,
        "version": "2.1.37",
        "gitBranch": "main",
        "type": kind,
        "uuid": uuid,
        "timestamp": f"2026-02-18T10:00:{len(uuid):02}.000Z",
        **fields,
    }


def ask_claude(uuid: str, parent: str | None, content: Any, **fields: Any) -> dict[str, Any]:
    """Return a line with a message of the user or with results."""
    message = {"role": "user", "content": content}
    return make_claude_line("user", uuid, parent, message=message, **fields)


def answer_claude(
    uuid: str, parent: str, block: Any, *, answer: str = "msg_1", **message: Any
) -> dict[str, Any]:
    """Return a line with one block of an answer."""
    usage = {
        "input_tokens": 4,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 2000,
        "cache_creation": {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 40},
        "output_tokens": 9,
        "service_tier": "standard",
    }
    content = {
        "id": answer,
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5-20250929",
        "content": [block],
        "stop_reason": None,
        "usage": usage,
        **message,
    }
    return make_claude_line("assistant", uuid, parent, message=content, requestId="req_1")


def make_codex_line(kind: str, payload: dict[str, Any], second: int = 0) -> dict[str, Any]:
    """Return a line of Codex."""
    return {"timestamp": f"2026-02-18T10:00:{second:02}.317Z", "type": kind, "payload": payload}


def make_codex_item(kind: str, second: int = 0, **fields: Any) -> dict[str, Any]:
    """Return a line with an item."""
    return make_codex_line("response_item", {"type": kind, **fields}, second)


OPENCODE_SESSION: Final = {
    "id": "ses_1",
    "slug": "quick-fox",
    "version": "1.1.36",
    "projectID": "global",
    "directory": "/srv/shop",
    "title": "Count the files",
    "time": {"created": 1_771_400_000_000, "updated": 1_771_400_009_000},
}


def make_opencode_message(
    identity: str, role: str, *parts: dict[str, Any], **fields: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a message of opencode with its parts."""
    number = int(identity.rpartition("_")[2])
    answer = {
        "providerID": "anthropic",
        "modelID": "claude-sonnet-4-5",
        "cost": 0.01,
        "tokens": {"input": 1, "output": 2, "reasoning": 0, "cache": {"read": 3, "write": 4}},
    }
    message = {
        "id": identity,
        "sessionID": "ses_1",
        "role": role,
        "time": {"created": 1_771_400_000_000 + number * 1000},
        **(answer if role == "assistant" else {"agent": "build"}),
        **fields,
    }
    numbered = [
        {"id": f"prt_{number}_{place}", "sessionID": "ses_1", "messageID": identity, **part}
        for place, part in enumerate(parts)
    ]
    return message, numbered


Messages = list[tuple[dict[str, Any], list[dict[str, Any]]]]


def write_opencode(folder: Path, session: dict[str, Any], messages: Messages) -> Path:
    """Write the JSON files of a session below a data folder; return that folder."""
    storage = folder / "storage"

    def write(path: Path, value: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), encoding="utf-8")

    write(storage / "session" / "global" / f"{session['id']}.json", session)
    for message, parts in messages:
        write(storage / "message" / session["id"] / f"{message['id']}.json", message)
        for part in parts:
            write(storage / "part" / message["id"] / f"{part['id']}.json", part)
    return folder


def write_opencode_database(path: Path, session: dict[str, Any], messages: Messages) -> Path:
    """Write a session into the database of newer versions; return its path."""

    def strip(value: dict[str, Any]) -> str:
        names = ("id", "sessionID", "messageID")
        return json.dumps({key: each for key, each in value.items() if key not in names})

    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(
            "CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, slug TEXT,"
            " directory TEXT, title TEXT, version TEXT, time_created INTEGER,"
            " time_updated INTEGER);"
            "CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER,"
            " time_updated INTEGER, data TEXT);"
            "CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT,"
            " time_created INTEGER, time_updated INTEGER, data TEXT);"
        )
        row = (session["id"], session["title"], session["time"]["created"])
        database.execute("INSERT INTO session (id, title, time_created) VALUES (?, ?, ?)", row)
        for message, parts in messages:
            database.execute(
                "INSERT INTO message (id, session_id, data) VALUES (?, ?, ?)",
                (message["id"], session["id"], strip(message)),
            )
            for part in parts:
                database.execute(
                    "INSERT INTO part (id, message_id, session_id, data) VALUES (?, ?, ?, ?)",
                    (part["id"], message["id"], session["id"], strip(part)),
                )
    return path
