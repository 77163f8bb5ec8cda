"""Branches of a session of Claude Code: each line names the line before it.

Editing an earlier question begins a new branch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vibe_llms.conversations.exchange.drafts import read_table, read_tables, read_text


def find_path(records: Sequence[Mapping[str, Any]]) -> set[int]:
    """Return the positions of the lines on the branch of the last message.

    The results of parallel calls are on branches of their own, and belong to it.
    """
    places = {read_text(each.get("uuid")): index for index, each in enumerate(records)}
    messages = [i for i, each in enumerate(records) if each.get("type") in ("user", "assistant")]
    path: set[int] = set()
    index = messages[-1] if messages else -1
    while index >= 0 and index not in path:
        path.add(index)
        index = _find_parent(records[index], index, places)
    answers = {_find_answer(records[index]) for index in path} - {""}
    path |= {index for index in messages if _find_answer(records[index]) in answers}
    calls = {call for index in path for call in _survey_ids(records[index], "tool_use", "id")}
    for index in messages:
        if calls & set(_survey_ids(records[index], "tool_result", "tool_use_id")):
            path.add(index)
    return path


def _find_parent(record: Mapping[str, Any], index: int, places: Mapping[str, int]) -> int:
    """Return the position of the line before a line on its branch; -1 for the first."""
    parent = read_text(record.get("parentUuid")) or read_text(record.get("logicalParentUuid"))
    if parent in places and parent:
        return places[parent]
    is_root = not parent and record.get("type") in ("user", "assistant") and "uuid" in record
    return -1 if is_root else index - 1


def _find_answer(record: Mapping[str, Any]) -> str:
    is_answer = record.get("type") == "assistant"
    return read_text(read_table(record.get("message")).get("id")) if is_answer else ""


def _survey_ids(record: Mapping[str, Any], kind: str, field: str) -> Iterator[str]:
    for block in read_tables(read_table(record.get("message")).get("content")):
        if block.get("type") == kind:
            yield read_text(block.get(field))
