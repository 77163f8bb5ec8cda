"""Importer of sessions of Codex: lines with items of OpenAI's Responses API.

A file ``rollout-….jsonl`` below ``~/.codex/sessions`` has one session. Events beside the items
repeat them for the display; only the numbers of tokens are read from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from vibe_llms.conversations.exchange.codex_usage import TurnLedger
from vibe_llms.conversations.exchange.drafts import (
    Draft,
    decode_base64,
    derive_identity,
    make_media,
    make_native,
    read_list,
    read_moment,
    read_table,
    read_tables,
    read_text,
    split_data_url,
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
from vibe_llms.messages.canisters import Origin, Owner
from vibe_llms.messages.contents import (
    AnyContent,
    NativeContent,
    ReasoningContent,
    TextualContent,
)
from vibe_llms.messages.losses import LossKind, Translation

if TYPE_CHECKING:
    from vibe_llms.conversations.conversation import Conversation

SOURCE: Final = "codex"

_FILES: Final = "rollout-*.jsonl"
_PROTOCOL: Final = "responses"
_PROVIDERS: Final = {"": "openai_responses", "openai": "openai_responses"}
_CONTEXT: Final = (
    "<environment_context>",
    "<user_instructions>",
    "<INSTRUCTIONS>",
    "# AGENTS.md instructions",
    "<turn_aborted>",
    "<user_shell_command>",
    "<subagent_notification>",
    "<skill>",
)
"""Beginnings of messages in the user's name that Codex adds."""

_SHOWN_AGAIN: Final = frozenset(
    {"user_message", "agent_message", "agent_reasoning", "agent_reasoning_raw_content"}
)
"""Events that repeat an item."""

_REPEATED_ITEMS: Final = frozenset({"UserMessage", "AgentMessage", "Reasoning"})
"""Items of newer events that repeat an item."""


def recognize_codex(path: Path) -> bool:
    """Return whether a file or a folder has sessions of Codex."""
    return has_key(path, _FILES, rb'"(?:session_meta|record_type|response_item)"')


def read_codex(path: Path) -> Iterator[Translation[Conversation]]:
    """Yield the sessions of a file or a folder."""
    for file in survey_files(path, _FILES):
        with name_file(file.name):
            found = _Reader(file, Draft(SOURCE, file.stem, file.name)).read()
        if len(found.value):
            yield found


@define
class _Reader:
    """Reader of one session.

    Attributes:
        path: The path of its file.
        draft: The conversation so far.
        provider: The provider of its answers.
        model: The model of its answers.
        names: Names of the tools, by the ids of their calls.
        ledger: Turns of the model.
        is_open: Whether the model's next item belongs to the last turn.
        title: Title of the session.
        instructions: The last instructions of the session; a fork repeats them.
        parent: The session that a subagent works for.
    """

    path: Path
    draft: Draft
    provider: str = _PROVIDERS[""]
    model: str = "unknown"
    names: dict[str, str] = attrs.field(factory=dict)
    ledger: TurnLedger = attrs.field(factory=TurnLedger)
    is_open: bool = False
    title: str | None = None
    instructions: str = ""
    parent: str = ""

    def read(self) -> Translation[Conversation]:
        for number, line in read_lines(self.path):
            place = f": line {number}"
            if line is None:
                self.draft.add_loss(place, "a damaged line")
                continue
            # The first versions wrote the items themselves, after a line about the session.
            payload = read_table(line.get("payload")) or line
            kind = read_text(line.get("type")) if "payload" in line else "response_item"
            if "payload" not in line and "type" not in line:
                kind = "session_meta"
            self.draft.begin(f"line {number}", read_moment(line.get("timestamp")))
            self._read_line(place, kind, payload)
        self.ledger.settle(self.draft)
        tags = [f"{PART_TAG}{derive_identity(SOURCE, self.parent)}"] if self.parent else []
        return self.draft.finish(self.title, tags=tags)

    def _read_line(self, place: str, kind: str, payload: Mapping[str, Any]) -> None:
        match kind:
            case "session_meta":
                self._read_session(payload)
            case "turn_context":
                self.model = read_text(payload.get("model")) or self.model
                self.ledger.is_announced = False
            case "response_item":
                self._read_item(place, payload)
                self.ledger.is_announced = False
            case "token_usage_record":
                total, response_id = payload.get("thread_token_usage"), payload.get("response_id")
                self._count(payload.get("usage"), total, response_id)
            case "compacted":
                self._read_summary(place, payload)
            case "event_msg":
                self._read_event(place, payload)
            case _:
                self.draft.add_loss(place, f"a line of the kind {kind!r} is not a message")

    def _read_session(self, payload: Mapping[str, Any]) -> None:
        identity = read_text(payload.get("id")) or read_text(payload.get("session_id"))
        if identity and self.draft.key == self.path.stem:  # a fork repeats its parent's line
            self.draft.key = identity
            self.parent, agent = _find_parent(payload)
            self.title = f"Subagent {agent}" if agent else self.title
        self.draft.created = self.draft.created or read_moment(payload.get("timestamp"))
        provider = read_text(payload.get("model_provider"))
        self.provider = _PROVIDERS.get(provider, provider)
        instructions = payload.get("base_instructions") or payload.get("instructions")
        text = read_text(read_table(instructions).get("text")) or read_text(instructions)
        if text and text != self.instructions:
            self.instructions = text
            self.draft.add_supervisor([TextualContent(text)])

    def _read_summary(self, place: str, payload: Mapping[str, Any]) -> None:
        text = read_text(payload.get("message"))
        self.is_open = False
        self.ledger.begin_question()  # the numbers of the summary are not those of an answer
        self.draft.add_document(
            [TextualContent(text)] if text else [], "Summary of the conversation so far"
        )
        if payload.get("replacement_history"):
            summary = "a summary" if text else "an encrypted summary, which is dropped"
            reason = f"the shortened history after {summary}; the whole history is kept"
            self.draft.add_loss(f"{place}.replacement_history", reason)

    def _read_item(self, place: str, item: Mapping[str, Any]) -> None:
        match read_text(item.get("type")):
            case "message" if item.get("role") != "assistant":
                self._read_input(place, item)
            case "message":
                self._answer(self._read_contents(place, item.get("content")))
            case "reasoning":
                self._answer([_read_reasoning(item)])
            case "function_call":
                self._call(item, read_text(item.get("arguments")) or "{}", "json")
            case "custom_tool_call":
                self._call(item, read_text(item.get("input")), "text")
            case "local_shell_call":
                shell = {"name": "local_shell", **item}
                self._call(shell, write_json(item.get("action") or {}), "json")
            case "function_call_output" | "custom_tool_call_output":
                self._read_result(place, item)
            case "agent_message":
                self._read_agent_message(place, item)
            case "image_generation_call" if data := decode_base64(item.get("result")):
                self._draw(item, data)
            case "ghost_snapshot" | "":
                self.draft.add_loss(place, "a line that is not a message")
            case kind:
                native = NativeContent(kind=kind, native=make_native(_PROTOCOL, item))
                self._answer([native])

    def _read_input(self, place: str, item: Mapping[str, Any]) -> None:
        self.is_open = False
        self.ledger.begin_question()
        contents = self._read_contents(place, item.get("content"))
        first = contents[0].text if contents and isinstance(contents[0], TextualContent) else ""
        if item.get("role") in ("system", "developer"):
            self.draft.add_supervisor(contents)
        elif first.lstrip().startswith(_CONTEXT) or _is_added(item):
            self.draft.add_document(contents, "Codex")
        else:
            self.draft.add_user(contents)

    def _read_agent_message(self, place: str, item: Mapping[str, Any]) -> None:
        """Read what another agent has told the model, such as the task of a subagent."""
        parts = read_tables(item.get("content"))
        if any(part.get("type") == "encrypted_content" for part in parts):
            reason = "the encrypted part of a message of another agent"
            self.draft.add_loss(f"{place}.content", reason)
        readable = [part for part in parts if part.get("type") != "encrypted_content"]
        self.is_open = False
        author = read_text(item.get("author")) or "agent"
        self.draft.add_document(self._read_contents(place, readable), f"Message of {author}")

    def _draw(self, item: Mapping[str, Any], data: bytes) -> None:
        """Add a picture that the model has drawn, as a call of the vendor with its result."""
        self._begin_answer()
        identity, name = read_text(item.get("id")), "image_generation"
        prompt = read_text(item.get("revised_prompt"))
        arguments = write_json({"prompt": prompt} if prompt else {})
        start = len(self.draft.canisters)
        self.draft.add_invocation(identity, name, arguments, "json", Owner.VENDOR)
        mime_type = f"image/{read_text(item.get('output_format')) or 'png'}"
        picture = make_media(mime_type, data=data)
        self.draft.add_result(identity, name, [picture], owner=Owner.VENDOR)
        self.ledger.turns[-1].positions += range(start, len(self.draft.canisters))

    def _read_contents(self, place: str, value: object) -> list[AnyContent]:
        contents: list[AnyContent] = []
        for number, part in enumerate(read_tables(value)):
            spot = f"{place}.content[{number}]"
            match part:
                case {"type": "input_text" | "output_text" | "text", "text": str(text)}:
                    contents += [TextualContent(text)] if text else []
                case {"type": "input_image", "image_url": str(url)}:
                    contents.append(_read_image(url))
                case _:
                    reason = f"a content of the kind {part.get('type')!r} is kept as JSON"
                    self.draft.add_loss(spot, reason, LossKind.COERCED)
                    contents.append(TextualContent(write_json(part)))
        return contents

    def _begin_answer(self) -> None:
        if not self.is_open:
            self.draft.begin_turn()
            self.ledger.begin_turn()
            self.is_open = True
            self.draft.origin = Origin(provider=self.provider, model=self.model, protocol=_PROTOCOL)

    def _answer(self, contents: list[AnyContent]) -> None:
        self._begin_answer()
        start = len(self.draft.canisters)
        self.draft.add_answer(contents)
        self.ledger.turns[-1].positions += range(start, len(self.draft.canisters))

    def _call(self, item: Mapping[str, Any], arguments: str, form: str) -> None:
        self._begin_answer()
        identity = read_text(item.get("call_id")) or read_text(item.get("id"))
        self.names[identity] = read_text(item.get("name")) or "unknown"
        self.ledger.turns[-1].positions.append(len(self.draft.canisters))
        self.draft.add_invocation(identity, self.names[identity], arguments, form, Owner.OURS)

    def _read_result(self, place: str, item: Mapping[str, Any]) -> None:
        output, is_error = item.get("output"), False
        if isinstance(output, dict):
            is_error = output.get("success") is False
            output = output.get("content")
        if isinstance(output, str):
            contents: list[AnyContent] = [TextualContent(output)]
        else:
            contents = self._read_contents(f"{place}.output", read_list(output))
        identity = read_text(item.get("call_id"))
        if identity not in self.names:  # a result must have a call
            self.draft.add_document(contents, "Result of an unknown call")
            return
        self.is_open = False
        self.draft.add_result(
            identity, self.names[identity], contents, is_error=is_error, owner=Owner.OURS
        )

    def _read_event(self, place: str, event: Mapping[str, Any]) -> None:
        kind = read_text(event.get("type"))
        if kind == "token_count":
            info = read_table(event.get("info"))
            self._count(info.get("last_token_usage"), info.get("total_token_usage"))
        elif kind == "thread_rolled_back":
            reason = "a rollback: the turns that it removed are kept"
            self.draft.add_loss(place, reason, LossKind.COERCED)
        elif kind == "thread_name_updated":
            self.title = read_text(event.get("thread_name")) or self.title
        elif kind in _SHOWN_AGAIN:
            self.ledger.is_announced = kind != "user_message"
        else:
            item = read_text(read_table(event.get("item")).get("type"))
            if item in _REPEATED_ITEMS:
                return
            kind = f"{kind}/{item}" if item else kind
            self.draft.add_loss(place, f"an event of the kind {kind!r} is not a message")

    def _count(self, usage: object, total: object, response_id: object = None) -> None:
        if self.ledger.count(usage, total, response_id):
            self.is_open = False


def _find_parent(session: Mapping[str, Any]) -> tuple[str, str]:
    """Return the session that a subagent works for, and its name; empty for other sessions."""
    agent = read_table(session.get("source")).get("subagent")
    spawn = read_table(read_table(agent).get("thread_spawn"))
    parent = read_text(spawn.get("parent_thread_id")) or read_text(session.get("parent_thread_id"))
    names = (spawn.get("agent_nickname"), session.get("agent_nickname"), agent)
    return parent, next(filter(None, map(read_text, names)), parent)


def _is_added(item: Mapping[str, Any]) -> bool:
    """Return whether Codex has added a message in the user's name."""
    details = read_table(item.get("internal_chat_message_metadata_passthrough"))
    kinds = {
        read_text(read_table(each.get("provenance")).get("type"))
        for each in read_tables(details.get("content_item_metadata"))
    }
    return kinds == {"harness"}


def _read_reasoning(item: Mapping[str, Any]) -> ReasoningContent:
    parts = read_tables(item.get("content"))
    summaries = read_tables(item.get("summary"))
    return ReasoningContent(
        text="".join(read_text(part.get("text")) for part in parts),
        summary=[read_text(part.get("text")) for part in summaries],
        signature=read_text(item.get("encrypted_content")) or None,
    )


def _read_image(url: str) -> AnyContent:
    found = split_data_url(url)
    if found is None:
        return make_media("image/*", data=None, url=url)
    return make_media(found[0], data=found[1])
