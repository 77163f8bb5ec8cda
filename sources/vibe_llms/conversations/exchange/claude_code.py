"""Importer of sessions of Claude Code: lines with messages of Anthropic's API.

A folder below ``~/.claude/projects`` has a file for each session. The format is undocumented. This
reads the fields of versions 1 and 2, and reports all others as losses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from vibe_llms.conversations.exchange.claude_code_branches import find_hidden, read_first_text
from vibe_llms.conversations.exchange.claude_code_inputs import (
    add_input,
    read_attachment,
    read_block,
    read_blocks,
)
from vibe_llms.conversations.exchange.drafts import (
    Draft,
    derive_identity,
    make_native,
    read_count,
    read_list,
    read_moment,
    read_table,
    read_tables,
    read_text,
    write_json,
)
from vibe_llms.conversations.exchange.session_files import (
    has_key,
    name_file,
    read_lines,
    survey_files,
)
from vibe_llms.conversations.tags import PART_TAG
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import Origin, Owner, StopReason, Usage
from vibe_llms.messages.contents import (
    AnyContent,
    NativeContent,
    ReasoningContent,
    TextualContent,
)
from vibe_llms.messages.losses import Translation

if TYPE_CHECKING:
    from vibe_llms.conversations.conversation import Conversation

SOURCE: Final = "claude-code"

_FILES: Final = "*.jsonl"
_PROTOCOL: Final = "messages"
_SYNTHETIC: Final = "<synthetic>"
"""Model of answers that Claude Code itself writes, such as errors."""

_TITLES: Final = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}
"""Field of the title by the type of its line; the last type wins."""

_ABSORBED: Final = "absorbed_mid_turn"
"""Why a queued message was removed from the queue: the model received it."""

_STOP_REASONS: Final = {
    "end_turn": StopReason.ANSWERED,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "max_tokens": StopReason.LIMIT,
    "tool_use": StopReason.INVOCATION,
    "pause_turn": StopReason.PAUSED,
    "refusal": StopReason.REFUSED,
    "model_context_window_exceeded": StopReason.OVERFLOW,
}


def recognize_claude_code(path: Path) -> bool:
    """Return whether a file or a folder has sessions of Claude Code."""
    return has_key(path, _FILES, rb'"(?:sessionId|leafUuid)"\s*:')


def read_claude_code(path: Path) -> Iterator[Translation[Conversation]]:
    """Yield the sessions of a file or a folder; subagents are conversations of their own."""
    for file in survey_files(path, _FILES):
        with name_file(file.name):
            found = list(_File(file).read())
        yield from found


@define
class _File:
    """Reader of one file.

    Attributes:
        path: Its path.
        records: Its objects, without skipped lines.
        numbers: The numbers of their lines.
        skipped: Reasons for skipping lines, by the lines' numbers.
        titles: Titles of the session by the types of their lines.
    """

    path: Path
    records: list[dict[str, Any]] = attrs.field(factory=list)
    numbers: list[int] = attrs.field(factory=list)
    skipped: dict[int, str] = attrs.field(factory=dict)
    titles: dict[str, str] = attrs.field(factory=dict)

    def read(self) -> Iterator[Translation[Conversation]]:
        threads: dict[str, list[int]] = {}
        agents: dict[str, str] = {}
        known: set[str] = set()
        titles: list[tuple[int, str, str, str]] = []
        for number, record in read_lines(self.path):
            if record is None:
                self.skipped[number] = "a damaged line"
                continue
            identity = read_text(record.get("uuid"))
            if identity and identity in known:
                self.skipped[number] = "a line with the id of an earlier line"
                continue
            known.add(identity)
            if field := _TITLES.get(read_text(record.get("type"))):
                leaf = read_text(record.get("leafUuid"))
                titles.append((number, record["type"], leaf, read_text(record.get(field))))
                continue
            agent = _find_agent(record, agents)
            threads.setdefault(agent, []).append(len(self.records))
            self.records.append(record)
            self.numbers.append(number)
        for number, kind, leaf, title in titles:
            # Some versions write the summaries of all sessions into each file.
            if leaf and leaf not in known:
                self.skipped[number] = "a summary of another session"
            else:
                self.titles[kind] = title
        threads.setdefault("", [])
        for agent, indices in sorted(threads.items()):
            found = self._read_thread(agent, indices)
            if len(found.value):
                yield found

    def _read_thread(self, agent: str, indices: Sequence[int]) -> Translation[Conversation]:
        session = self.path.stem
        created = (read_moment(self.records[index].get("timestamp")) for index in indices)
        moment = next(filter(None, created), None)
        if not agent:
            draft = Draft(SOURCE, session, self.path.name, moment)
            for number, reason in self.skipped.items():
                draft.add_loss(f": line {number}", reason)
            _Thread(draft, [(self.numbers[each], self.records[each]) for each in indices]).read()
            title = next(filter(None, (self.titles.get(kind) for kind in reversed(_TITLES))), None)
            return draft.finish(title)
        # A subagent has a file of its own, or is in the file of its session.
        parent = read_text(self.records[indices[0]].get("sessionId")) or session
        draft = Draft(SOURCE, f"{parent}/{agent}", self.path.name, moment)
        _Thread(draft, [(self.numbers[each], self.records[each]) for each in indices]).read()
        return draft.finish(
            f"Subagent {agent}", tags=[f"{PART_TAG}{derive_identity(SOURCE, parent)}"]
        )


def _find_agent(record: Mapping[str, Any], agents: dict[str, str]) -> str:
    """Return the id of the subagent of a line; empty for the session itself.

    Args:
        record: The line.
        agents: Agents by the ids of their lines so far; updated.
    """
    if record.get("isSidechain") is not True:
        return ""
    identity = read_text(record.get("uuid"))
    above = agents.get(read_text(record.get("parentUuid")), "")
    agent = read_text(record.get("agentId")) or above or identity or "agent"
    agents[identity] = agent
    return agent


@define
class _Thread:
    """Reader of the lines of a session, or of one of its subagents.

    Attributes:
        draft: The conversation so far.
        records: The lines, with their numbers.
        origins: Origins of the answers, by the ids of their messages.
        names: Names of the tools, by the ids of their calls.
        queued: Number of attachments for queued messages, by their texts.
        waiting: Messages in the queue.
    """

    draft: Draft
    records: Sequence[tuple[int, dict[str, Any]]]
    origins: dict[str, Origin] = attrs.field(factory=dict)
    names: dict[str, str] = attrs.field(factory=dict)
    queued: Counter[str] = attrs.field(factory=Counter)
    waiting: list[object] = attrs.field(factory=list)

    def read(self) -> None:
        for _, record in self.records:
            message = read_table(record.get("message"))
            if record.get("type") == "assistant" and read_text(message.get("id")):
                # Each line of an answer repeats its usage; the last one has the final numbers.
                self._update_origin(message)
            attachment = read_table(record.get("attachment"))
            if attachment.get("type") == "queued_command":
                self.queued[read_first_text(attachment.get("prompt"))] += 1
        hidden = find_hidden([record for _, record in self.records])
        for index, (number, record) in enumerate(self.records):
            place = f": line {number}"
            self._begin(number, record)
            match record.get("type"), record.get("subtype"):
                case "queue-operation", _:
                    self._read_queue(place, record, hidden.get(index))
                case (("user" | "assistant" | "attachment"), _) | ("system", "local_command") if (
                    reason := hidden.get(index)
                ):
                    self.draft.add_loss(place, reason)
                case "user", _:
                    self._read_user(place, record)
                case "assistant", _:
                    self._read_answer(place, record)
                case "attachment", _:
                    read_attachment(self.draft, place, read_table(record.get("attachment")))
                case "system", "local_command":
                    add_input(
                        self.draft, record, read_blocks(self.draft, place, record.get("content"))
                    )
                case kind, subtype:
                    kind = f"{kind}/{subtype}" if isinstance(subtype, str) else kind
                    self.draft.add_loss(place, f"a line of the kind {kind!r} is not a message")

    def _begin(self, number: int, record: Mapping[str, Any]) -> None:
        key = read_text(record.get("uuid")) or f"line {number}"
        self.draft.begin(key, read_moment(record.get("timestamp")))

    def _update_origin(self, message: Mapping[str, Any]) -> None:
        identity = read_text(message.get("id"))
        native = read_text(message.get("stop_reason")) or None
        before = self.origins.get(identity)
        if native is None and before is not None:
            native = before.native_stop_reason
        stop_reason = _STOP_REASONS.get(native or "", StopReason.UNKNOWN)
        kinds = {read_text(block.get("type")) for block in read_tables(message.get("content"))}
        if native is None and ("tool_use" in kinds or _is_calling(before)):
            stop_reason = StopReason.INVOCATION  # many versions do not store the reason
        self.origins[identity] = Origin(
            provider="anthropic",
            model=read_text(message.get("model")) or "unknown",
            protocol=_PROTOCOL,
            response_id=identity,
            stop_reason=stop_reason,
            native_stop_reason=native,
            usage=_read_usage(message.get("usage")),
        )

    def _read_user(self, place: str, record: Mapping[str, Any]) -> None:
        content = read_table(record.get("message")).get("content")
        if content in self.waiting:
            self.waiting.remove(content)
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        contents: list[AnyContent] = []
        for number, block in enumerate(map(read_table, read_list(blocks))):
            spot = f"{place}.content[{number}]"
            if block.get("type") == "tool_result":
                self._read_result(spot, block)
            else:
                contents += read_block(self.draft, spot, block)
        if isinstance(record.get("toolUseResult"), (dict, list)):
            self.draft.add_loss(
                f"{place}.toolUseResult", "the structured form of a result; its text is kept"
            )
        if record.get("isCompactSummary") is True:
            self.draft.add_document(contents, "Summary of the conversation so far")
        else:
            add_input(self.draft, record, contents)

    def _read_queue(self, place: str, record: Mapping[str, Any], hidden: str | None = None) -> None:
        """Read a message that was queued while the model worked.

        Some versions store it only here: once it is queued, or once it is removed from the queue.
        """
        content = self._find_sent(record)
        text = read_first_text(content)
        if not text or self.queued[text] > 0:
            self.queued[text] -= 1 if text else 0
            self.draft.add_loss(place, "a line of the kind 'queue-operation' is not a message")
        elif hidden:
            self.draft.add_loss(place, hidden)
        else:
            add_input(self.draft, record, read_blocks(self.draft, place, content))

    def _find_sent(self, record: Mapping[str, Any]) -> object:
        """Return the queued message that the model receives now; ``None`` if there is none."""
        operation, content = record.get("operation"), record.get("content")
        if operation == "enqueue":
            self.waiting.append(content)
        elif operation == "popAll":  # the user has taken them back
            self.waiting.clear()
        elif content in self.waiting:
            self.waiting.remove(content)
        elif self.waiting and not content:
            content = self.waiting.pop(0)
        is_sent = operation == "remove" and record.get("reason") in (None, _ABSORBED)
        return content if is_sent else None

    def _read_result(self, place: str, block: Mapping[str, Any]) -> None:
        contents = read_blocks(self.draft, f"{place}.content", block.get("content"))
        identity = read_text(block.get("tool_use_id"))
        if identity not in self.names:  # a result must have a call
            self.draft.add_document(contents, "Result of an unknown call")
            return
        self.draft.add_result(
            identity,
            self.names[identity],
            contents,
            is_error=block.get("is_error") is True,
            owner=Owner.OURS,
        )

    def _read_answer(self, place: str, record: Mapping[str, Any]) -> None:
        message = read_table(record.get("message"))
        is_synthetic = message.get("model") == _SYNTHETIC
        origin = self.origins.get(read_text(message.get("id")))
        self.draft.begin_turn(read_text(message.get("id")))
        self.draft.origin = None if is_synthetic else origin
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        contents: list[AnyContent] = []
        for block in map(read_table, read_list(blocks)):
            if block.get("type") != "tool_use":
                contents += _read_output(block)
                continue
            self.draft.add_answer(contents)
            contents = []
            identity, name = read_text(block.get("id")), read_text(block.get("name")) or "unknown"
            self.names[identity] = name
            arguments = write_json(block.get("input") or {})
            self.draft.add_invocation(identity, name, arguments, "json", Owner.OURS)
        self.draft.add_answer(contents)
        if record.get("isApiErrorMessage") is True:
            self.draft.add_loss(place, "that an answer is an error of the API")


def _is_calling(origin: Origin | None) -> bool:
    return origin is not None and origin.stop_reason is StopReason.INVOCATION


def _read_output(block: Mapping[str, Any]) -> list[AnyContent]:
    """Read a block of the model that is not a call for Claude Code."""
    match block:
        case {"type": "text", "text": str(text)}:
            citations = block.get("citations")
            native = make_native(_PROTOCOL, {"citations": citations}) if citations else None
            return [TextualContent(text, native=native)] if text else []
        case {"type": "thinking", "thinking": str(text)}:
            signature = read_text(block.get("signature")) or None
            return [ReasoningContent(text=text, signature=signature)]
        case {"type": "redacted_thinking", "data": str(data)}:
            native = make_native(_PROTOCOL, {"type": "redacted_thinking"})
            return [ReasoningContent(signature=data, native=native)]
    kind = read_text(block.get("type")) or "unknown"
    return [NativeContent(kind=kind, native=make_native(_PROTOCOL, block))]


def _read_usage(value: object) -> Usage | None:
    usage = read_table(value)
    if not usage:
        return None
    written = read_count(usage.get("cache_creation_input_tokens"))
    hour = read_count(read_table(usage.get("cache_creation")).get("ephemeral_1h_input_tokens"))
    return Usage(
        input_tokens=read_count(usage.get("input_tokens")),
        cache_read_tokens=read_count(usage.get("cache_read_input_tokens")),
        cache_write_tokens=written if written is None else max(0, written - (hour or 0)),
        cache_write_long_tokens=hour,
        output_tokens=read_count(usage.get("output_tokens")),
        native=write_json(usage),
    )
