"""Canisters as the items of a request.

The protocol has items for everything in a turn, in chronological order. A canister from one item
becomes one item again; a canister with several kinds of content becomes several.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
import msgspec

from vibe_llms.dialects.cache_hints import lower_hints, omit_hints
from vibe_llms.dialects.extras import NAMELESS, is_mark, make_native, merge, without
from vibe_llms.dialects.history import (
    HistoryEntry,
    HistoryRules,
    RepairedHistory,
    locate,
    pair_results,
    repair_history,
)
from vibe_llms.dialects.ledger import Ledger, reading_natives
from vibe_llms.dialects.openai_caching import AUTOMATIC, takes_breakpoints, write_breakpoint
from vibe_llms.dialects.plain import is_plain_call
from vibe_llms.dialects.responses.calling import calls
from vibe_llms.dialects.responses.calling.item_order import WrittenItem, settle_reasoning
from vibe_llms.dialects.responses.calling.items import NATIVE_ITEMS
from vibe_llms.dialects.responses.calling.parts import PartsWriter
from vibe_llms.dialects.responses.calling.reasoning import write_reasoning
from vibe_llms.dialects.responses.namespaces import QualifiedName
from vibe_llms.dialects.responses.quirks import PROTOCOL, Quirks
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import (
    AnyContent,
    AudioContent,
    NativeContent,
    ReasoningContent,
    TextualContent,
)
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.views import list_content_classes
from vibe_llms.models.attributes import ModelAttributes

HISTORY_RULES: Final = HistoryRules(id_pattern=r"[\s\S]{1,64}")
_NO_QUALIFIED_NAMES: Final[Mapping[str, QualifiedName]] = {}


def nativize_canisters(
    canisters: Sequence[AnyCanister],
    attributes: ModelAttributes,
    quirks: Quirks,
    *,
    provider: str = "",
    is_stored: bool = False,
    continues_stored: bool = False,
    qualified_names: Mapping[str, QualifiedName] = _NO_QUALIFIED_NAMES,
) -> Translation[JsonObject]:
    """Return ``{"input": […]}``, with ``instructions`` if the conversation began with them.

    Args:
        provider: The request's provider: signatures of other providers are withheld.
        is_stored: Whether the vendor may have earlier reasoning stored by its id.
        continues_stored: Whether the vendor puts stored items before these canisters. If so,
            results may answer invocations in stored items.
        qualified_names: The qualified names of tools in namespaces, by their names in the
            conversation.

    Raises:
        CapabilityError: The model is known not to support a content.
        RequestError: The bytes of a medium are missing.
    """
    ledger = Ledger(protocol=PROTOCOL, provider=provider, siblings=quirks.siblings)
    canisters = (
        lower_hints(
            canisters, ledger, lambda hint, _: write_breakpoint(hint), own_only=(AudioContent,)
        )
        if takes_breakpoints(attributes)
        else omit_hints(canisters, ledger, AUTOMATIC)
    )
    history = _repair(
        canisters, ledger, continues_stored=continues_stored or _has_references(canisters)
    )
    writer = ItemsWriter(
        parts=PartsWriter(attributes, quirks, ledger), qualified_names=qualified_names
    )
    native: dict[str, Any] = {}
    if history.canisters and _is_instructions(history.canisters[0]):
        native["instructions"] = getattr(history.canisters[0].content[0], "text", "")
        history = RepairedHistory(history.canisters[1:], history.positions[1:])
    writer.write_history(history)
    native["input"] = (
        settle_reasoning(writer.written, ledger, is_stored=is_stored)
        if writer.has_reasoning
        else writer.items
    )
    return Translation(native, ledger.losses)


def _repair(
    canisters: Sequence[AnyCanister], ledger: Ledger, *, continues_stored: bool
) -> RepairedHistory:
    """Repair a conversation whose beginning the vendor may have stored."""
    if not continues_stored:
        return repair_history(canisters, HISTORY_RULES, ledger)
    answering = set(pair_results(canisters).values())
    results_for_stored = {
        index: canister
        for index, canister in enumerate(canisters)
        if isinstance(canister, ResultCanister)
        and canister.owner is Owner.OURS
        and index not in answering
    }
    # The repair changes no results of the vendor: results for stored items are marked as such.
    marked = [
        attrs.evolve(canister, owner=Owner.VENDOR)
        if isinstance(canister, ResultCanister) and index in results_for_stored
        else canister
        for index, canister in enumerate(canisters)
    ]
    repaired = repair_history(marked, HISTORY_RULES, ledger)
    restored = [
        results_for_stored.get(position, canister) for canister, position in repaired.pair()
    ]
    return RepairedHistory(restored, repaired.positions)


def _has_references(canisters: Sequence[AnyCanister]) -> bool:
    """Return whether there are references to stored items, which only the vendor has."""
    if NativeContent not in list_content_classes(canisters):
        return False
    return any(
        isinstance(content, NativeContent) and content.kind == "item_reference"
        for canister in canisters
        for content in canister.content
    )


def _is_instructions(canister: AnyCanister) -> bool:
    """Return whether a canister was read from the field ``instructions``."""
    if not isinstance(canister, SupervisorCanister) or canister.native is None:
        return False
    if canister.native.protocol != PROTOCOL or len(canister.content) != 1:
        return False
    return canister.native == INSTRUCTIONS and isinstance(canister.content[0], TextualContent)


INSTRUCTIONS: Final = make_native(PROTOCOL, {"$place": "instructions"})
"""Note on a canister that was in ``instructions``, and not among the items."""

EMPTY_INPUT_NOTE: Final = "$nothing"
"""Key of a note on the empty canister of a request without input."""


@define(kw_only=True)
class ItemsWriter:
    """Writes canisters as items of a request or a response.

    Attributes:
        is_answer: Whether the items are a response, where each item needs a unique id.
        qualified_names: The qualified names of tools in namespaces, by their names in the
            conversation.
        items: The items.
        locations: For each item, the position of its canister as a number, or the path of its
            canister or content as a text.
        has_reasoning: Whether there are items of reasoning, for which the vendor has rules.
    """

    parts: PartsWriter
    is_answer: bool = False
    qualified_names: Mapping[str, QualifiedName] = attrs.field(factory=dict)
    items: list[dict[str, Any]] = attrs.field(factory=list)
    locations: list[int | str] = attrs.field(factory=list)
    has_reasoning: bool = False
    _calls: calls.CallsWriter = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._calls = calls.CallsWriter(self.parts, self.is_answer, self.qualified_names)

    @property
    def ledger(self) -> Ledger:
        """The ledger for losses."""
        return self.parts.ledger

    @property
    def written(self) -> list[WrittenItem]:
        """The items with their paths."""
        paths = (locate(each) if isinstance(each, int) else each for each in self.locations)
        return [WrittenItem(item, path) for item, path in zip(self.items, paths, strict=True)]

    def write_history(self, history: RepairedHistory) -> None:
        """Write the conversation of a request; plain texts, calls and results are the fastest."""
        items, locations = self.items, self.locations
        canister: Any
        for canister, position, text in history.read(allows_native=True):
            kind = type(canister)
            item: dict[str, Any] | None = None
            if kind is UserCanister:
                if text is not None:
                    item = {"role": "user", "content": text}
            elif kind is AssistantCanister:
                if text is not None:
                    item = self._write_plain_answer(canister, text)
            elif kind is InvocationCanister:
                item = self._write_plain_call(canister)
            elif (
                kind is ResultCanister
                and text is not None
                and not canister.is_error
                and self._calls.answers_function(canister)
            ):
                identity = canister.invocation_id
                item = {"type": "function_call_output", "call_id": identity, "output": text}
            if item is None:
                path = locate(position)
                with reading_natives(canister, path):
                    self._write(canister, path)
            else:
                items.append(item)
                locations.append(position)

    def _write_plain_answer(self, canister: AssistantCanister, text: str) -> dict[str, Any] | None:
        """Return the item of an answer of one plain text; ``None`` if it has other native data."""
        native_fields = self._open_plain(canister)
        if native_fields is None:
            return None
        if not native_fields:
            return {"type": "message", "role": "assistant", "content": text}
        return {
            "type": "message",
            "id": native_fields["id"],
            "role": "assistant",
            "status": native_fields["status"],
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }

    def _write_plain_call(self, canister: InvocationCanister) -> dict[str, Any] | None:
        """Return the item of a plain call; ``None`` for any other."""
        if self.qualified_names or not is_plain_call(canister, canister.native):
            return None
        native_fields = self._open_plain(canister)
        return None if native_fields is None else self._calls.write_plain(canister, native_fields)

    def _open_plain(
        self, canister: AssistantCanister | InvocationCanister
    ) -> dict[str, Any] | None:
        """Return the id and the status of an item, or ``None`` if it has other native data."""
        native = canister.native
        if native is None:
            return {}
        if not self.parts.ledger.admits(native, canister):
            return None
        try:
            fields = _decode(native.data)
        except UNREADABLE:
            return None
        is_plain = (
            type(fields) is dict and len(fields) == 2 and "id" in fields and "status" in fields
        )
        return fields if is_plain else None

    def write(self, entries: Iterable[HistoryEntry]) -> None:
        """Write canisters, in their order."""
        for each in entries:
            with reading_natives(each.canister, each.path):
                self._write(each.canister, each.path)

    def _write(self, canister: AnyCanister, path: str) -> None:
        match canister:
            case AssistantCanister():
                self._write_model_contents(canister, path)
            case InvocationCanister():
                self._add(self._calls.write_invocation(canister, path), path)
            case ResultCanister():
                self._add(self._calls.write_result(canister, path), path)
            case _:
                self._write_input(canister, path)

    def _add(self, item: dict[str, Any] | None, path: str) -> None:
        if item is not None:
            if item.get("type") == "reasoning":
                self.has_reasoning = True
            self.items.append(item)
            self.locations.append(path)

    def _write_input(
        self, canister: UserCanister | SupervisorCanister | DocumentCanister, path: str
    ) -> None:
        if _is_item(canister):
            for index, content in enumerate(canister.content):
                self._write_native(content, f"{path}.content[{index}]", canister)
            return
        extras = self.ledger.read_sendable(canister.native, path, canister)
        if extras.get(EMPTY_INPUT_NOTE):
            return
        is_supervisor = isinstance(canister, SupervisorCanister)
        role = self.parts.quirks.supervisor_role if is_supervisor else "user"
        written = self.parts.write_content(canister, path)
        self._add(merge({"role": role, "content": written}, extras), path)

    def _write_model_contents(self, canister: AssistantCanister, path: str) -> None:
        """Write contents of the model: texts as messages, other contents as items."""
        extras = self.ledger.read_sendable(canister.native, path, canister)
        is_item = bool(extras.get("$item"))
        message_contents: list[tuple[AnyContent, str]] = []
        message_count = 0
        for index, content in enumerate(canister.content):
            place = f"{path}.content[{index}]"
            if isinstance(content, ReasoningContent):
                message_count += self._end_message(
                    message_contents, canister, path, extras, message_count
                )
                item = write_reasoning(
                    content, place, canister, self.parts, is_answer=self.is_answer
                )
                self._add(item, place)
            elif isinstance(content, NativeContent) and (is_item or content.kind in NATIVE_ITEMS):
                message_count += self._end_message(
                    message_contents, canister, path, extras, message_count
                )
                self._write_native(content, place, canister)
            else:
                message_contents.append((content, place))
        message_count += self._end_message(message_contents, canister, path, extras, message_count)
        if not message_count:
            names = ", ".join(sorted(name for name in extras if not is_mark(name)))
            if names:
                self.ledger.drop(f"{path}.native", f"{names}: no message can carry it")

    def _end_message(
        self,
        message_contents: list[tuple[AnyContent, str]],
        canister: AssistantCanister,
        path: str,
        extras: Mapping[str, Any],
        count: int,
    ) -> int:
        """Write the message of the collected contents; return the number of messages: 0 or 1.

        Args:
            message_contents: The collected contents, each with its path; they are removed.
            count: The number of messages written before.
        """
        parts = []
        for content, place in message_contents:
            part = self.parts.write_part(content, place, canister, "output_text")
            if part is not None:
                parts.append(part)
        message_contents.clear()
        if not parts:
            return 0
        # Only the first message of a canister keeps its id, as ids are unique.
        message_extras = extras if count == 0 else without(extras, "id")
        self._add(self._write_message(parts, canister, path, message_extras, count), path)
        return 1

    def _write_message(
        self,
        parts: list[dict[str, Any]],
        canister: AssistantCanister,
        path: str,
        extras: Mapping[str, Any],
        count: int,
    ) -> dict[str, Any]:
        needs_list = "id" in extras or self.is_answer
        is_bare = parts[0].keys() == {"type", "text", "annotations"} and not parts[0]["annotations"]
        if not needs_list and len(parts) == 1 and is_bare and parts[0]["type"] == "output_text":
            # OpenAI allows omitting the type; llama.cpp identifies this item only by it.
            plain = {"type": "message", "role": "assistant", "content": parts[0]["text"]}
            return merge(plain, extras)
        message: dict[str, Any] = {
            "type": "message",
            "id": calls.produce_item_id("msg", canister.id, count),
            "role": "assistant",
            "status": "completed",
            "content": parts,
        }
        if extras.keys() & NAMELESS.keys():  # the message came without an id
            del message["id"]
        elif "id" not in extras:
            reason = "id: a message of several parts needs one"
            self.ledger.synthesize(f"{path}.native", reason, is_routine=True)
        return merge(message, extras)

    def _write_native(self, content: AnyContent, path: str, canister: AnyCanister) -> None:
        self._add(self.parts.write_part(content, path, canister, "input_text"), path)


_decode: Final = msgspec.json.Decoder().decode


def _is_item(canister: UserCanister | SupervisorCanister | DocumentCanister) -> bool:
    """Return whether a canister has items of the vendor, and is not a message."""
    contents = canister.content
    return bool(contents) and all(
        isinstance(content, NativeContent) and content.kind in NATIVE_ITEMS for content in contents
    )
