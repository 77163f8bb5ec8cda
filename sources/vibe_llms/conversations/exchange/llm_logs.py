"""Importer of the logs of Simon Willison's ``llm``: output of ``llm logs --json``, and ``logs.db``.

The database has two formats: up to 0.35 one row per response, and since then messages in a tree, in
which forked conversations share their common part. One file may contain both formats. Paths of
attachments are never followed, so that a received log cannot read local files.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vibe_llms.conversations.exchange.drafts import (
    Draft,
    read_moment,
    read_tables,
    read_text,
)
from vibe_llms.conversations.exchange.exports import CONVERSATION_BYTES, open_export, open_file
from vibe_llms.conversations.exchange.llm_rows import (
    SOURCE,
    add_invocation,
    add_result,
    make_origin,
    read_attachment,
)
from vibe_llms.exceptions import CodecError
from vibe_llms.foundation.files import resolve_links
from vibe_llms.messages.contents import AnyContent, ReasoningContent, TextualContent
from vibe_llms.messages.losses import Translation

if TYPE_CHECKING:
    from vibe_llms.conversations.conversation import Conversation

DATABASE_MARK = b"SQLite format 3\0"
_TABLES = "select name from sqlite_master where type = 'table'"
"""Only tables are listed, as a view in a foreign file could have endless rows."""


def is_database(path: Path) -> bool:
    """Return whether a file is a database with logs of ``llm``."""
    with open_file(path) as file:
        if file.read(len(DATABASE_MARK)) != DATABASE_MARK:
            return False
    try:
        with closing(_connect(path)) as database:
            return bool(_survey_tables(database) & {"responses", "threads"})
    except sqlite3.Error:
        return False


def read_llm(path: Path) -> Iterator[Translation[Conversation]]:
    """Yield the conversations of a log.

    Raises:
        CodecError: The file is not such a log; the error names the place.
    """
    with open_file(path) as file:
        is_sqlite = file.read(len(DATABASE_MARK)) == DATABASE_MARK
    if not is_sqlite:
        yield from _read_json(path)
        return
    from vibe_llms.conversations.exchange.llm_threads import read_threads

    try:
        with closing(_connect(path)) as database:
            tables = _survey_tables(database)
            known: set[str] = set()
            if "threads" in tables:
                for identity, conversation in read_threads(database):
                    known.add(identity)
                    yield conversation
            if "responses" in tables:
                yield from _read_responses(database, known)
            elif "threads" not in tables:
                raise CodecError(
                    path="the database",
                    detail="The database has no logs of `llm`.",
                    known=("responses", "threads"),
                )
    except sqlite3.Error as error:
        raise CodecError(
            path="the database",
            detail=f"Cannot read the database: {error}.",
            remedy="`llm logs path` prints the database's path; `llm logs --json -n 0` writes it "
            "as JSON.",
        ) from error


def _connect(path: Path) -> sqlite3.Connection:
    # Read-only, as the file may be foreign, or in use by `llm`.
    database = sqlite3.connect(f"{resolve_links(path).as_uri()}?mode=ro", uri=True)
    database.row_factory = sqlite3.Row
    # A text that is not UTF-8 must not prevent reading the others.
    database.text_factory = lambda data: data.decode("utf-8", "replace")
    return database


def _survey_tables(database: sqlite3.Connection) -> set[str]:
    return {row[0] for row in database.execute(_TABLES)}


def _read_json(path: Path) -> Iterator[Translation[Conversation]]:
    # The whole log is read into memory, as entries of one conversation may not be adjacent.
    if path.stat().st_size > CONVERSATION_BYTES:
        raise CodecError(
            detail=f"The log is larger than {CONVERSATION_BYTES:,} bytes (CONVERSATION_BYTES).",
            remedy="Import the database itself: `llm logs path` prints its path.",
        )
    entries: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    with open_export(path) as export:
        for place, table in export.read_tables():
            if not isinstance(table.get("prompt"), str | None) or "response" not in table:
                raise CodecError(
                    path=place, detail="An entry of a log needs a `prompt` and a `response`."
                )
            key = read_text(table.get("conversation_id")) or read_text(table.get("id")) or place
            entries.setdefault(key, []).append((place, table))
    for key, group in entries.items():
        yield _read_conversation(key, group)


def _read_responses(
    database: sqlite3.Connection, known: set[str]
) -> Iterator[Translation[Conversation]]:
    rows = database.execute("select * from responses order by conversation_id, datetime_utc, id")
    names = dict(database.execute("select id, name from conversations").fetchall())
    tables, key = _survey_tables(database), None
    group: list[tuple[str, dict[str, Any]]] = []
    for row in rows:
        row_key = row["conversation_id"] or row["id"]
        if row_key != key and group:
            yield _read_conversation(str(key), group)
            group = []
        key = row_key
        # Conversations in both formats were read in the newer format.
        if key not in known:
            entry = {**dict(row), "conversation_name": names.get(key)}
            _add_related_rows(database, tables, entry)
            group.append((f"responses[{row['id']}]", entry))
    if group:
        yield _read_conversation(str(key), group)


def _add_related_rows(
    database: sqlite3.Connection, tables: set[str], entry: dict[str, Any]
) -> None:
    """Add a response's data from other tables, with the names of ``llm logs --json``."""
    identity = (entry["id"],)

    def select(table: str, query: str) -> list[dict[str, Any]]:
        return [dict(row) for row in database.execute(query, identity)] if table in tables else []

    for name in ("tool_calls", "tool_results"):
        query = f"select * from {name} where response_id = ? order by id"
        entry[name] = select(name, query)
    entry["attachments"] = select(
        "prompt_attachments",
        "select a.* from attachments a join prompt_attachments p on p.attachment_id = a.id "
        'where p.response_id = ? order by p."order"',
    )
    for name in ("prompt_fragments", "system_fragments"):
        entry[name] = select(
            name,
            f"select f.content from fragments f join {name} p on p.fragment_id = f.id "
            'where p.response_id = ? order by p."order"',
        )


def _read_conversation(
    key: str, entries: list[tuple[str, dict[str, Any]]]
) -> Translation[Conversation]:
    draft = Draft(SOURCE, key, "", read_moment(entries[0][1].get("datetime_utc")))
    instructions = ""
    for place, entry in entries:
        draft.place = place
        draft.begin(read_text(entry.get("id")), read_moment(entry.get("datetime_utc")))
        system = _read_prompt(entry, "system")
        if system and system != instructions:  # each entry repeats them
            draft.add_supervisor([TextualContent(system)])
            instructions = system
        _read_entry(draft, entry)
    return draft.finish(read_text(entries[0][1].get("conversation_name")))


def _read_entry(draft: Draft, entry: dict[str, Any]) -> None:
    # Results first: they belong to calls of the entry before, and were sent with this prompt.
    for result in read_tables(entry.get("tool_results")):
        add_result(draft, result)
    question: list[AnyContent] = []
    if prompt := _read_prompt(entry, "prompt"):
        question.append(TextualContent(prompt))
    for number, attachment in enumerate(read_tables(entry.get("attachments"))):
        question += read_attachment(draft, f".attachments[{number}]", attachment)
    draft.add_user(question)
    draft.origin = make_origin(entry)
    answer: list[AnyContent] = []
    if reasoning := read_text(entry.get("reasoning")):
        answer.append(ReasoningContent(text=reasoning))
    if response := read_text(entry.get("response")):
        answer.append(TextualContent(response))
    draft.add_answer(answer)
    for call in read_tables(entry.get("tool_calls")):
        add_invocation(draft, call)


def _read_prompt(entry: Mapping[str, Any], field: str) -> str:
    """Return the prompt with its fragments.

    Newer versions of ``llm`` store a prompt that includes the fragments; otherwise the fragments
    precede the prompt.
    """
    text = read_text(entry.get(field))
    rows = read_tables(entry.get(f"{field}_fragments"))
    fragments = [read_text(row.get("content")) for row in rows]
    if all(fragment in text for fragment in fragments):
        return text
    return "\n".join([*fragments, text]) if text else "\n".join(fragments)
