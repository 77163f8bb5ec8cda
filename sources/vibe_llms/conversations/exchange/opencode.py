"""Importer of sessions of opencode: messages with parts, for any vendor.

A message of the model may have several steps; a step is one answer, with its calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from vibe_llms.conversations.exchange.drafts import (
    Draft,
    derive_identity,
    make_media,
    read_count,
    read_moment,
    read_table,
    read_tables,
    read_text,
    split_data_url,
    write_json,
)
from vibe_llms.conversations.exchange.opencode_files import Session, survey_sessions
from vibe_llms.conversations.exchange.opencode_files import recognize_opencode as recognize_opencode
from vibe_llms.conversations.exchange.session_files import name_file
from vibe_llms.conversations.tags import PART_TAG
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import Origin, Owner, StopReason, Usage
from vibe_llms.messages.contents import AnyContent, ReasoningContent, TextualContent
from vibe_llms.messages.losses import LossKind, Translation

if TYPE_CHECKING:
    from vibe_llms.conversations.conversation import Conversation

SOURCE: Final = "opencode"

_PROVIDERS: Final = {"openai": "openai_responses"}
_PROTOCOLS: Final = {"anthropic": "messages", "openai": "responses", "google": "generate_content"}
_SIGNATURES: Final = {
    "anthropic": "signature",
    "openai": "reasoningEncryptedContent",
    "google": "thoughtSignature",
}
"""Field of the signature in the metadata of reasoning, by vendor."""

_MAX_MILLISECONDS: Final = 10**15
"""Bound of times; the year 9999 is before it."""

_ENDED: Final = ("completed", "error")
"""States of a tool that has a result."""

_STOP_REASONS: Final = {
    "stop": StopReason.ANSWERED,
    "length": StopReason.LIMIT,
    "tool-calls": StopReason.INVOCATION,
    "content-filter": StopReason.FILTERED,
    "error": StopReason.FAILED,
}


def read_opencode(path: Path) -> Iterator[Translation[Conversation]]:
    """Yield the sessions, oldest first; subagents are conversations of their own.

    Raises:
        CodecError: A file or the database is damaged.
    """
    for session in survey_sessions(path):
        with name_file(session.place):
            found = _Reader(session).read()
        if len(found.value):
            yield found


@define
class _Reader:
    """Reader of one session.

    Attributes:
        session: The session.
        draft: The conversation so far.
        instructions: The last instructions; each question repeats them.
    """

    session: Session
    draft: Draft = attrs.field(init=False)
    instructions: str = ""

    def read(self) -> Translation[Conversation]:
        info = self.session.info
        identity = read_text(info.get("id"))
        created = _read_moment(read_table(info.get("time")).get("created"))
        self.draft = Draft(SOURCE, identity, self.session.place, created)
        roles = [message.get("role") for message, _ in self.session.messages]
        last = max((at for at, role in enumerate(roles) if role == "assistant"), default=-1)
        for number, (message, parts) in enumerate(self.session.messages):
            place = f" {read_text(message.get('id'))}"
            moment = _read_moment(read_table(message.get("time")).get("created"))
            self.draft.begin(read_text(message.get("id")), moment)
            match message.get("role"):
                case "user":
                    self._read_question(place, message, parts)
                case "assistant":
                    is_open = number == last and not message.get("error")
                    if not self._read_answer(place, message, parts, moment, is_open):
                        # A later import adds the rest after what is stored.
                        self.draft.add_loss(place, "an unfinished answer; import it again later")
                        break
                case role:
                    self.draft.add_loss(place, f"unknown role {role!r}")
        if info.get("revert"):
            reason = "a revert: the messages that it hides are kept"
            self.draft.add_loss(".revert", reason, LossKind.COERCED)
        parent = read_text(info.get("parentID"))
        tags = [f"{PART_TAG}{derive_identity(SOURCE, parent)}"] if parent else []
        return self.draft.finish(read_text(info.get("title")), tags=tags)

    def _read_question(
        self, place: str, message: Mapping[str, Any], parts: list[dict[str, Any]]
    ) -> None:
        system = read_text(message.get("system"))
        if system and system != self.instructions:
            self.instructions = system
            self.draft.add_supervisor([TextualContent(system)])
        contents: list[AnyContent] = []
        for part in parts:
            spot = f"{place}.{read_text(part.get('id'))}"
            match part:
                case {"type": "text", "text": str(text), "synthetic": True} if text:
                    self.draft.add_document([TextualContent(text)], "opencode")
                case {"type": "text", "text": str(text)}:
                    contents += [TextualContent(text)] if text else []
                case {"type": "file"}:
                    contents += self._read_file(spot, part)
                case {"type": "subtask", "prompt": str(prompt)}:
                    contents.append(TextualContent(prompt))
                    reason = "a task for a subagent is kept as its prompt"
                    self.draft.add_loss(spot, reason, LossKind.COERCED)
                case _:
                    self._add_part_loss(spot, part)
        self.draft.add_user(contents)

    def _read_file(self, place: str, part: Mapping[str, Any]) -> list[AnyContent]:
        url, name = read_text(part.get("url")), read_text(part.get("filename")) or None
        if found := split_data_url(url):
            return [make_media(found[0], data=found[1], name=name)]
        if url.startswith(("https://", "http://")):
            return [make_media(read_text(part.get("mime")), data=None, url=url, name=name)]
        self.draft.add_loss(place, "a file whose bytes are not in the session")
        return []

    def _read_answer(
        self,
        place: str,
        message: Mapping[str, Any],
        parts: list[dict[str, Any]],
        moment: Any,
        is_open: bool,
    ) -> bool:
        """Read the steps of an answer; stop at an unfinished one if opencode may continue it.

        Returns:
            False if it stopped.
        """
        identity, steps = read_text(message.get("id")), _split_steps(parts)
        for number, step in enumerate(steps):
            if is_open and not _is_finished(step):
                return False
            end = next((each for each in step if each.get("type") == "step-finish"), {})
            is_last = number == len(steps) - 1
            # Without the numbers of its steps, only a single step has those of the message.
            tokens = end.get("tokens") or (message.get("tokens") if len(steps) == 1 else None)
            origin = _make_origin(message, read_text(end.get("reason")), is_last)
            self.draft.origin = attrs.evolve(origin, usage=_read_usage(read_table(tokens)))
            self.draft.begin_turn(f"{identity} {number}")
            # Ids follow from the parts, as a result may be stored before that of another call.
            keys = [read_text(part.get("id")) or f"{number} {at}" for at, part in enumerate(step)]
            for key, part in zip(keys, step, strict=True):
                self.draft.begin(f"{identity}/{key}", moment)
                self._read_part(f"{place}.{read_text(part.get('id'))}", part)
            for key, part in zip(keys, step, strict=True):
                if part.get("type") == "tool":
                    self.draft.begin(f"{identity}/{key}/result", moment)
                    self._read_result(f"{place}.{read_text(part.get('id'))}", part)
        error = read_table(message.get("error"))
        if error and not steps:
            reason = f"the error {read_text(error.get('name'))!r} instead of an answer"
            self.draft.add_loss(place, reason)
        return True

    def _read_part(self, place: str, part: Mapping[str, Any]) -> None:
        match part:
            case {"type": "text", "text": str(text)}:
                self.draft.add_answer([TextualContent(text)] if text else [])
            case {"type": "reasoning", "text": str(text)}:
                signature = _find_signature(read_table(part.get("metadata")))
                if text or signature:
                    self.draft.add_answer([ReasoningContent(text=text, signature=signature)])
            case {"type": "file"}:
                self.draft.add_answer(self._read_file(place, part))
            case {"type": "tool"}:
                state = read_table(part.get("state"))
                raw = read_text(state.get("raw")) if not state.get("input") else ""
                self.draft.add_invocation(
                    read_text(part.get("callID")),
                    read_text(part.get("tool")) or "unknown",
                    raw or write_json(state.get("input") or {}),
                    "json",
                    Owner.OURS,
                )
            case {"type": "step-start" | "step-finish"}:
                pass  # read with the step
            case _:
                self._add_part_loss(place, part)

    def _read_result(self, place: str, part: Mapping[str, Any]) -> None:
        state = read_table(part.get("state"))
        if state.get("status") not in _ENDED:
            return
        if state.get("metadata"):
            reason = "the structured form of a result; its text is kept"
            self.draft.add_loss(f"{place}.state.metadata", reason)
        is_error = state.get("status") == "error"
        text = read_text(state.get("error" if is_error else "output"))
        contents: list[AnyContent] = [TextualContent(text)] if text else []
        for attachment in read_tables(state.get("attachments")):
            contents += self._read_file(f"{place}.attachments", attachment)
        self.draft.add_result(
            read_text(part.get("callID")),
            read_text(part.get("tool")) or None,
            contents,
            is_error=is_error,
            owner=Owner.OURS,
        )

    def _add_part_loss(self, place: str, part: Mapping[str, Any]) -> None:
        kind = part.get("type")
        self.draft.add_loss(place, f"a part of the kind {kind!r} has no counterpart")


def _split_steps(parts: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Split the parts of an answer after each end of a step."""
    steps: list[list[dict[str, Any]]] = [[]]
    for part in parts:
        steps[-1].append(part)
        if part.get("type") == "step-finish":
            steps.append([])
    return [step for step in steps if step]


def _is_finished(step: list[dict[str, Any]]) -> bool:
    """Tell whether opencode writes nothing more into the parts of a step."""
    for part in step:
        if part.get("type") == "tool" and read_table(part.get("state")).get("status") not in _ENDED:
            return False
        time = read_table(part.get("time"))
        if part.get("type") in ("text", "reasoning") and "start" in time and "end" not in time:
            return False
    return True


def _make_origin(message: Mapping[str, Any], reason: str, is_last: bool) -> Origin:
    """Create the origin of a step, without its usage."""
    provider = read_text(message.get("providerID"))
    reason = reason or (read_text(message.get("finish")) if is_last else "")
    stop_reason = _STOP_REASONS.get(reason, StopReason.UNKNOWN)
    error = read_text(read_table(message.get("error")).get("name"))
    if error and is_last:
        is_abort = error == "MessageAbortedError"
        stop_reason = StopReason.INTERRUPTED if is_abort else StopReason.FAILED
    return Origin(
        provider=_PROVIDERS.get(provider, provider) or SOURCE,
        model=read_text(message.get("modelID")) or "unknown",
        protocol=_PROTOCOLS.get(provider),
        stop_reason=stop_reason,
        native_stop_reason=reason or None,
    )


def _read_usage(tokens: Mapping[str, Any]) -> Usage | None:
    cache = read_table(tokens.get("cache"))
    if not any((*map(tokens.get, ("input", "output", "reasoning")), *cache.values())):
        return None  # zero everywhere means that the answer broke off
    return Usage(
        input_tokens=read_count(tokens.get("input")),
        cache_read_tokens=read_count(cache.get("read")),
        cache_write_tokens=read_count(cache.get("write")),
        output_tokens=read_count(tokens.get("output")),
        reasoning_tokens=read_count(tokens.get("reasoning")),
        native=write_json(tokens),
    )


def _find_signature(metadata: Mapping[str, Any]) -> str | None:
    for vendor, field in _SIGNATURES.items():
        if signature := read_text(read_table(metadata.get(vendor)).get(field)):
            return signature
    return None


def _read_moment(milliseconds: object) -> Any:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, (int, float)):
        return None
    # A larger integer cannot be divided as a float.
    return read_moment(milliseconds / 1000) if abs(milliseconds) < _MAX_MILLISECONDS else None
