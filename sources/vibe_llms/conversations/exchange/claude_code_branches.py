"""Branches of a session of Claude Code: each line names the line before it.

Going back to an earlier question begins a new branch. Lines of parallel work look similar, but all
of them belong to the session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from vibe_llms.conversations.exchange.drafts import (
    read_table,
    read_tables,
    read_text,
)
from vibe_llms.foundation.attrs_classes import define

OUTPUTS: Final = (
    "<local-command-",
    "<bash-stdout>",
    "<bash-stderr>",
    "<task-notification>",
    "<system-reminder>",
)
"""Beginnings of messages in the user's name that Claude Code adds."""

_INTERRUPTION: Final = "[Request interrupted by user"
_COMMANDS: Final = ("<command-name>", "<command-message>")
_ABANDONED: Final = "a message on a branch other than the last one"
_REPEATED: Final = "a line that repeats an earlier line"


def find_hidden(records: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """Return the positions of the lines that are not part of the session, with the reasons."""
    tree = _Tree()
    for index, record in enumerate(records):
        tree.places.setdefault(read_text(record.get("uuid")), index)
    for index, record in enumerate(records):
        tree.add(index, record)
    tree.find_path()
    return tree.repeated | dict.fromkeys(tree.survey_abandoned(), _ABANDONED)


def read_first_text(content: object) -> str:
    """Return the first text of a message."""
    if isinstance(content, str):
        return content
    return next((read_text(each.get("text")) for each in read_tables(content)), "")


@define
class _Tree:
    """Lines, each below the line before it.

    Attributes:
        records: The lines.
        places: The positions of the lines by their ids; of a repeated line, that of the first one.
        parents: The positions of the lines before; -1 before the first line.
        repeated: The positions of repeated lines, with the reason.
        path: The messages from the last one to the first one; for each line on this path, the
            position of the next message.
    """

    records: list[Mapping[str, Any]] = attrs.field(factory=list)
    places: dict[str, int] = attrs.field(factory=dict)
    parents: list[int] = attrs.field(factory=list)
    repeated: dict[int, str] = attrs.field(factory=dict)
    path: dict[int, int | None] = attrs.field(factory=dict)
    _twins: dict[tuple[int, str, str], list[int]] = attrs.field(factory=dict)

    def add(self, index: int, record: Mapping[str, Any]) -> None:
        """Add the next line."""
        parent = self._find_parent(record, index)
        self.records.append(record)
        self.parents.append(parent)
        if _is_message(record):
            # A compaction may write messages again, with new ids.
            key = (parent, read_text(record.get("type")), read_text(record.get("timestamp")))
            twins = self._twins.setdefault(key, [])
            content = _get_content(record)
            same = (i for i in twins if key[2] and _get_content(self.records[i]) == content)
            if (first := next(same, None)) is not None:
                self.repeated[index] = _REPEATED
                self.places[read_text(record.get("uuid"))] = first
            else:
                twins.append(index)

    def _find_parent(self, record: Mapping[str, Any], index: int) -> int:
        parent = self.places.get(read_text(record.get("parentUuid")) or "\0")
        if parent is not None:
            return parent
        logical = self.places.get(read_text(record.get("logicalParentUuid")) or "\0", index)
        if logical < index:  # a compaction may move the line before it behind its summary
            return logical
        is_root = not record.get("parentUuid") and _is_prompt(record) and "uuid" in record
        is_command = read_first_text(_get_content(record)).startswith(_COMMANDS)
        return -1 if is_root and not is_command else index - 1

    def find_path(self) -> None:
        """Find the path to the last message."""
        messages = [i for i, each in enumerate(self.records) if _is_message(each)]
        index = next((i for i in reversed(messages) if i not in self.repeated), -1)
        after: int | None = None
        while index >= 0 and index not in self.path:
            self.path[index] = after
            after = index if _is_message(self.records[index]) else after
            index = self.parents[index]
        self.path[-1] = after

    def survey_abandoned(self) -> Iterator[int]:
        """Yield the positions of the lines on other branches."""
        answers = {_find_answer(self.records[index]) for index in self.path if index >= 0} - {""}
        calls = {
            call
            for record in self.records
            if _find_answer(record) in answers
            for call in _survey_ids(record, "tool_use", "id")
        }
        tops: dict[int, tuple[int, int | None]] = {}
        for index, record in enumerate(self.records):
            if index in self.path or index in self.repeated or _find_answer(record) in answers:
                continue
            if calls & set(_survey_ids(record, "tool_result", "tool_use_id")):
                continue  # results of parallel calls are on branches of their own
            junction, top = self._climb(index, tops)
            if top is not None and self._is_abandoned(junction, top):
                yield index

    def _climb(self, index: int, tops: dict[int, tuple[int, int | None]]) -> tuple[int, int | None]:
        """Return where a line leaves the path, and the first message after that.

        Args:
            index: The position of the line.
            tops: The results so far, by the position; updated.
        """
        chain: list[int] = []
        above, known = index, set[int]()
        while above not in self.path and above not in tops and above not in known:
            chain.append(above)
            known.add(above)
            above = self.parents[above]
        junction, top = tops.get(above, (above, None))
        for each in reversed(chain):
            top = each if top is None and _is_message(self.records[each]) else top
            tops[each] = junction, top
        return junction, top

    def _is_abandoned(self, junction: int, top: int) -> bool:
        """Return whether the user left a branch, as opposed to parallel work.

        Args:
            junction: Where it leaves the path.
            top: Its first message.
        """
        if _is_prompt(self.records[top]):
            return True
        after = self.path.get(junction)
        return junction >= 0 and after is not None and _is_prompt(self.records[after])


def _is_message(record: Mapping[str, Any]) -> bool:
    return record.get("type") in ("user", "assistant")


def _get_content(record: Mapping[str, Any]) -> object:
    return read_table(record.get("message")).get("content")


def _is_prompt(record: Mapping[str, Any]) -> bool:
    """Return whether the user typed a message."""
    content = _get_content(record)
    if record.get("type") != "user" or record.get("isMeta") or record.get("isCompactSummary"):
        return False
    if any(each.get("type") == "tool_result" for each in read_tables(content)):
        return False
    return not read_first_text(content).startswith((*OUTPUTS, _INTERRUPTION))


def _find_answer(record: Mapping[str, Any]) -> str:
    is_answer = record.get("type") == "assistant"
    return read_text(read_table(record.get("message")).get("id")) if is_answer else ""


def _survey_ids(record: Mapping[str, Any], kind: str, field: str) -> Iterator[str]:
    for block in read_tables(_get_content(record)):
        if block.get("type") == kind:
            yield read_text(block.get(field))
