"""Sessions of opencode as it stores them: a folder of JSON files, a database, or an export."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from vibe_llms.conversations.exchange.drafts import read_table, read_tables, read_text
from vibe_llms.conversations.exchange.exports import decode_table
from vibe_llms.exceptions import CodecError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.files import read_beginning, read_file

_FILE_BYTES: Final = 268_435_456
_BEGINNING_BYTES: Final = 65_536


@frozen
class Session:
    """One session.

    Attributes:
        place: Its file, for losses.
        info: Its data.
        messages: Its messages, oldest first, each with its parts.
    """

    place: str
    info: dict[str, Any]
    messages: list[tuple[dict[str, Any], list[dict[str, Any]]]]


def recognize_opencode(path: Path) -> bool:
    """Return whether a path is the data folder of opencode, its database or an export."""
    if path.is_dir():
        return _find_storage(path) is not None or (path / "opencode.db").is_file()
    if path.suffix == ".json":
        beginning = read_beginning(path, _BEGINNING_BYTES)
        return b'"info"' in beginning and b'"sessionID"' in beginning
    return _has_tables(path)


def survey_sessions(path: Path) -> Iterator[Session]:
    """Yield all sessions one by one, oldest first; those of a database before those of files.

    Raises:
        CodecError: A file or the database is damaged.
    """
    if path.is_dir():
        storage, database = _find_storage(path), path / "opencode.db"
        known: set[str] = set()
        # The database has the sessions of the files, unless an older version wrote more since.
        for session in _read_database(database) if database.is_file() else ():
            known.add(read_text(session.info.get("id")))
            yield session
        if storage is not None:
            yield from _read_storage(storage, known)
    elif path.suffix == ".json":
        table = _read_table(path)
        messages = [
            (read_table(each.get("info")), read_tables(each.get("parts")))
            for each in read_tables(table.get("messages"))
        ]
        yield Session(path.name, read_table(table.get("info")), messages)
    else:
        yield from _read_database(path)


def _find_storage(path: Path) -> Path | None:
    return next((each for each in (path, path / "storage") if (each / "session").is_dir()), None)


def _read_storage(storage: Path, known: set[str]) -> Iterator[Session]:
    """Yield the sessions of the files, without some known ones."""
    sessions = []
    for file in (storage / "session").rglob("*.json"):
        info = _read_table(file)
        sessions.append({**info, "id": read_text(info.get("id")) or file.stem})
    for info in sorted(sessions, key=_order):
        if info["id"] not in known:
            messages = []
            for message in _read_folder(storage / "message" / info["id"]):
                parts = _read_folder(storage / "part" / read_text(message.get("id")))
                parts.sort(key=lambda each: read_text(each.get("id")))
                messages.append((message, parts))
            yield Session(f"{info['id']}.json", info, messages)


def _read_folder(folder: Path) -> list[dict[str, Any]]:
    if not folder.is_dir():
        return []
    return sorted(map(_read_table, folder.glob("*.json")), key=_order)


def _read_table(path: Path) -> dict[str, Any]:
    return decode_table(read_file(path, _FILE_BYTES), path.name)


def _order(info: Mapping[str, Any]) -> tuple[float, str]:
    """Return the time and the id of a session or a message, to sort by."""
    created = read_table(info.get("time")).get("created")
    return (created if isinstance(created, (int, float)) else 0.0, read_text(info.get("id")))


def _has_tables(path: Path) -> bool:
    with suppress(sqlite3.Error), closing(_open(path)) as database:
        names = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        return {"session", "message", "part"} <= names
    return False


def _open(path: Path) -> sqlite3.Connection:
    read_beginning(path, 1)  # raises OSError; SQLite would create a missing file
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _read_database(path: Path) -> Iterator[Session]:
    try:
        with closing(_open(path)) as database:
            database.row_factory = sqlite3.Row
            for row in database.execute("SELECT * FROM session ORDER BY time_created, id"):
                columns = dict(row)
                info = {
                    "id": columns.get("id"),
                    "title": columns.get("title"),
                    "parentID": columns.get("parent_id"),
                    "time": {"created": columns.get("time_created")},
                    "revert": columns.get("revert"),
                }
                yield Session(path.name, info, _read_messages(database, row["id"]))
    except sqlite3.Error as error:
        raise CodecError(path=path.name, detail=f"Cannot read the database: {error}.") from error


def _read_messages(
    database: sqlite3.Connection, session: str
) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    parts: dict[str, list[dict[str, Any]]] = {}
    query = "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY id"
    for row in database.execute(query, (session,)):
        parts.setdefault(row["message_id"], []).append({**_decode(row["data"]), "id": row["id"]})
    query = "SELECT id, data FROM message WHERE session_id = ?"
    rows = database.execute(query, (session,)).fetchall()
    messages = sorted(({**_decode(row["data"]), "id": row["id"]} for row in rows), key=_order)
    return [(message, parts.get(message["id"], [])) for message in messages]


def _decode(text: str | bytes) -> dict[str, Any]:
    return decode_table(text.encode() if isinstance(text, str) else text, "data")
