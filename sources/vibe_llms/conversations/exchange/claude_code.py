"""Importer of sessions of Claude Code: lines with messages of Anthropic's API.

A folder below ``~/.claude/projects`` has a file for each session. The format is undocumented. This
reads the fields of versions 1 and 2, and reports all others as losses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from vibe_llms.conversations.exchange.claude_code_branches import find_path
from vibe_llms.conversations.exchange.drafts import (
    Draft,
    decode_base64,
    derive_identity,
    make_media,
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
from vibe_llms.messages.losses import LossKind, Translation

if TYPE_CHECKING:
    from vibe_llms.conversations.conversation import Conversation

SOURCE: Final = "claude-code"

_FILES: Final = "*.jsonl"
_PROTOCOL: Final = "messages"
_SYNTHETIC: Final = "<synthetic>"
"""Model of answers that Claude Code itself writes, such as errors."""

_TITLES: Final = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}
"""Field of the title by the type of its line; the last type wins."""

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
                self.titles[record["type"]] = read_text(record.get(field))
                continue
            agent = _find_agent(record, agents)
            threads.setdefault(agent, []).append(len(self.records))
            self.records.append(record)
            self.numbers.append(number)
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
    """

    draft: Draft
    records: Sequence[tuple[int, dict[str, Any]]]
    origins: dict[str, Origin] = attrs.field(factory=dict)
    names: dict[str, str] = attrs.field(factory=dict)

    def read(self) -> None:
        for _, record in self.records:
            message = read_table(record.get("message"))
            if record.get("type") == "assistant" and read_text(message.get("id")):
                # Each line of an answer repeats its usage; the last one has the final numbers.
                self._update_origin(message)
        shown = find_path([record for _, record in self.records])
        for index, (number, record) in enumerate(self.records):
            place = f": line {number}"
            match record.get("type"):
                case "user" | "assistant" | "attachment" if index not in shown:
                    self.draft.add_loss(place, "a message on a branch other than the last one")
                case "user":
                    self._begin(number, record)
                    self._read_user(place, record)
                case "assistant":
                    self._begin(number, record)
                    self._read_answer(place, read_table(record.get("message")))
                case "attachment":
                    self._begin(number, record)
                    self._read_attachment(place, record)
                case kind:
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
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        contents: list[AnyContent] = []
        for number, block in enumerate(map(read_table, read_list(blocks))):
            spot = f"{place}.content[{number}]"
            if block.get("type") == "tool_result":
                self._read_result(spot, block)
            else:
                contents += self._read_input(spot, block)
        if isinstance(record.get("toolUseResult"), (dict, list)):
            self.draft.add_loss(
                f"{place}.toolUseResult", "the structured form of a result; its text is kept"
            )
        if record.get("isCompactSummary") is True:
            self.draft.add_document(contents, "Summary of the conversation so far")
        elif record.get("isMeta") is True:
            self.draft.add_document(contents, "Claude Code")
        else:
            self.draft.add_user(contents)

    def _read_input(self, place: str, block: Mapping[str, Any]) -> list[AnyContent]:
        """Read a block of the user or of a result."""
        source = read_table(block.get("source"))
        match block.get("type"), source.get("type"):
            case "text", _:
                text = read_text(block.get("text"))
                return [TextualContent(text)] if text else []
            case (("image" | "document"), "base64") if data := decode_base64(source.get("data")):
                title = read_text(block.get("title")) or None
                return [make_media(read_text(source.get("media_type")), data=data, name=title)]
            case (("image" | "document"), "url") if url := read_text(source.get("url")):
                kind = "image/*" if block["type"] == "image" else "application/pdf"
                return [make_media(kind, data=None, url=url)]
        self.draft.add_loss(
            place, f"a block of the kind {block.get('type')!r} is kept as JSON", LossKind.COERCED
        )
        return [TextualContent(write_json(block))]

    def _read_result(self, place: str, block: Mapping[str, Any]) -> None:
        value = block.get("content")
        pieces = [{"type": "text", "text": value}] if isinstance(value, str) else read_list(value)
        contents: list[AnyContent] = []
        for number, piece in enumerate(map(read_table, pieces)):
            contents += self._read_input(f"{place}.content[{number}]", piece)
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

    def _read_answer(self, place: str, message: Mapping[str, Any]) -> None:
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
        if message.get("isApiErrorMessage") is True:
            self.draft.add_loss(place, "that an answer is an error of the API")

    def _read_attachment(self, place: str, record: Mapping[str, Any]) -> None:
        attachment = read_table(record.get("attachment"))
        kind = read_text(attachment.get("type")) or "attachment"
        self.draft.add_loss(
            place, f"an attachment of the kind {kind!r} is kept as JSON", LossKind.COERCED
        )
        self.draft.add_document([TextualContent(write_json(attachment))], kind)


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
