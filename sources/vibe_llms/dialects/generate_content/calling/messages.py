"""Canisters as the contents of a request.

A content has everything from one role until the other role begins: the results of one turn share a
content, and so does everything of one turn of a model. Contents that were separate in a client's
request stay separate. Instructions at the beginning become ``systemInstruction``. Later
instructions are sent as the user's text, because the protocol has no field for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs
import msgspec

from vibe_llms.dialects.cache_hints import omit_hints
from vibe_llms.dialects.extras import NAMELESS, merge, without
from vibe_llms.dialects.framing import survey_contents
from vibe_llms.dialects.generate_content.calling.parts import (
    SIGNATURE,
    PartsWriter,
    WrittenContent,
)
from vibe_llms.dialects.generate_content.calling.results import write_result
from vibe_llms.dialects.generate_content.calling.signatures import (
    begin_with_user,
    join_calls,
    sign_calls,
)
from vibe_llms.dialects.generate_content.quirks import PROTOCOL, Quirks, find_generation
from vibe_llms.dialects.history import (
    HistoryEntry,
    HistoryRules,
    RepairedHistory,
    belongs,
    locate,
    repair_history,
)
from vibe_llms.dialects.instructions import LATE
from vibe_llms.dialects.ledger import Ledger, reading_natives
from vibe_llms.dialects.plain import OURS, read_arguments
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.losses import Translation
from vibe_llms.models.attributes import ModelAttributes


def nativize_canisters(
    canisters: Sequence[AnyCanister],
    attributes: ModelAttributes,
    quirks: Quirks,
    *,
    provider: str = "",
) -> Translation[JsonObject]:
    """Return ``{"contents": […]}``, with ``systemInstruction`` if there are instructions.

    Args:
        provider: The request's provider: signatures of others are withheld.

    Raises:
        CapabilityError: The model is known not to support a content.
        RequestError: The bytes of a medium are missing.
    """
    ledger = Ledger(protocol=PROTOCOL, provider=provider)
    canisters = omit_hints(canisters, ledger)
    writer = ContentsWriter(
        parts=PartsWriter(attributes=attributes, quirks=quirks, ledger=ledger),
        takes_media=find_generation(attributes) >= 3,
    )
    writer.write_all(repair_history(canisters, HistoryRules(), ledger))
    contents, locations = writer.contents, writer.locations
    if writer.needs_arrangement:
        contents = join_calls(contents, locations, ledger)
        if find_generation(attributes) >= 3:
            sign_calls(contents, locations, ledger)
    contents = begin_with_user(contents, locations, ledger)
    system: dict[str, Any] = {} if writer.system is None else {"systemInstruction": writer.system}
    return Translation({**system, "contents": contents}, ledger.losses)


class _Signature(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """Native data of a call that has only a signature."""

    thoughtSignature: str  # noqa: N815  # the vendor's name


_decode_signature: Final = msgspec.json.Decoder(_Signature).decode


@define(kw_only=True)
class ContentsWriter:
    """Collects canisters into contents.

    Attributes:
        takes_media: Whether media may be in a result.
        contents: The contents so far.
        locations: For each of their parts, in order, the position of its canister, or the path of
            its canister or content.
        system: The content with the instructions at the beginning.
        needs_arrangement: Whether calls may break the vendor's rules: those with the general path,
            without a signature, or in one of several contents of the model.
    """

    parts: PartsWriter
    takes_media: bool = True
    contents: list[WrittenContent] = attrs.field(factory=list)
    locations: list[int | str] = attrs.field(factory=list)
    system: WrittenContent | None = None
    needs_arrangement: bool = False
    _previous: AnyCanister | None = attrs.field(default=None, init=False)
    _calls: dict[str, dict[str, Any]] = attrs.field(factory=dict, init=False)

    def write_all(self, history: RepairedHistory) -> None:
        """Write a conversation; plain texts, calls and results here, which is the fastest."""
        contents, locations = self.contents, self.locations
        write_call, write_result = self._write_plain_call, self._write_plain_result
        canister: Any
        previous: AnyCanister | None = None
        last_role = ""  # of the last content
        for canister, position, text in history.read():
            kind = type(canister)
            if text and (
                kind is UserCanister or (kind is AssistantCanister and last_role != "model")
            ):  # as most messages
                last_role = "user" if kind is UserCanister else "model"
                contents.append({"role": last_role, "parts": [{"text": text}]})
                locations.append(position)
                previous = canister
                continue
            role, joins_previous = "user", False
            part: dict[str, Any] | None = None
            if kind is ResultCanister:
                joins_previous = last_role == "user" and type(previous) is ResultCanister
                part = write_result(canister, text)
            elif kind is AssistantCanister or kind is InvocationCanister:
                role = "model"
                if last_role == "model" and previous is not None:
                    self.needs_arrangement = True
                    joins_previous = belongs(previous, canister)
                if kind is InvocationCanister:
                    part = write_call(canister)
                elif text:
                    part = {"text": text}
            if part is None:
                self._previous, path = previous, locate(position)
                with reading_natives(canister, path):
                    self.write(HistoryEntry(canister, path))
                previous, last_role = self._previous, contents[-1]["role"] if contents else ""
                continue
            if joins_previous:
                contents[-1]["parts"].append(part)
            else:
                contents.append({"role": role, "parts": [part]})
                last_role = role
            locations.append(position)
            previous = canister

    def _write_plain_result(
        self, canister: ResultCanister, text: str | None
    ) -> dict[str, Any] | None:
        """Return the part of a result of one plain text; ``None`` for any other."""
        identity = canister.invocation_id
        call = self._calls.get(identity)
        if text is None or canister.owner is not OURS or call is None or "id" not in call:
            return None
        name = canister.name or call["name"] or "function"
        response = {"error" if canister.is_error else "output": text}
        return {"functionResponse": {"id": identity, "name": name, "response": response}}

    def _write_plain_call(self, canister: InvocationCanister) -> dict[str, Any] | None:
        """Return the part of a call without native data but its signature; ``None`` for others."""
        native, signature = canister.native, ""
        if native is None:
            self.needs_arrangement = True
        elif not self.parts.ledger.admits(native, canister):
            return None
        else:
            try:
                signature = _decode_signature(native.data).thoughtSignature
            except UNREADABLE:
                return None
            if not signature:
                return None
        arguments = read_arguments(canister, native)
        if arguments is None:
            return None
        identity = canister.invocation_id
        call = {"id": identity, "name": canister.name, "args": arguments}
        self._calls[identity] = call
        return {"functionCall": call, SIGNATURE: signature} if signature else {"functionCall": call}

    def write(self, entry: HistoryEntry) -> None:
        """Write one canister of a repaired conversation. Raises RequestError."""
        canister, path = entry.canister, entry.path
        self.needs_arrangement = True  # its native data may be a call
        ledger, is_vendors = self.parts.ledger, getattr(canister, "owner", None) is Owner.VENDOR
        if is_vendors and not ledger.admits_execution(canister, path):
            return
        extras = ledger.read_sendable(canister.native, path, canister)
        wrapper = extras.pop("content", {})
        joined = wrapper.pop("joined", None)
        content = self._access_content(canister, path, joined)
        if wrapper:
            content.update(merge(content, without(wrapper, *content)))
        match canister:
            case InvocationCanister() | ResultCanister() if is_vendors:
                self._add(content, extras, path)
            case InvocationCanister():
                part = write_call(canister, extras, path, self.parts)
                self._calls[canister.invocation_id] = part["functionCall"]
                self._add(content, part, path)
            case ResultCanister():
                for part in self._write_result(canister, extras, path):
                    self._add(content, part, path)
            case _:
                self._write_contents(canister, content, path)
                for name in extras:
                    ledger.drop(f"{path}.native", f"{name}: a message has no such field")
        if not content["parts"] and content is not self.system:
            self.contents.pop()  # the empty content is the last one
        else:
            self._previous = canister

    def _access_content(
        self, canister: AnyCanister, path: str, joined: bool | None
    ) -> WrittenContent:
        """Return the protocol's content for a canister: the last content, or a new one."""
        if isinstance(canister, SupervisorCanister):
            if not self.contents:
                self.system = self.system or {"parts": []}
                return self.system
            self.parts.ledger.coerce(path, LATE)
        role, joins_previous = "user", False
        if self._previous is not None and self.contents:
            joins_previous = belongs(self._previous, canister)
        if isinstance(canister, (AssistantCanister, InvocationCanister)) or (
            isinstance(canister, ResultCanister) and canister.owner is Owner.VENDOR
        ):
            role = "model"
        elif isinstance(canister, ResultCanister):
            joins_previous = isinstance(self._previous, ResultCanister)
        if joined is not None:
            joins_previous = joined
        if joins_previous and self.contents and self.contents[-1]["role"] == role:
            return self.contents[-1]
        self.contents.append({"role": role, "parts": []})
        return self.contents[-1]

    def _add(self, content: WrittenContent, part: dict[str, Any] | None, place: str) -> None:
        """Add a part, if there is one, to the last content or the instructions."""
        if part is not None:
            content["parts"].append(part)
            if content is not self.system:
                self.locations.append(place)

    def _write_contents(self, canister: AnyCanister, content: WrittenContent, path: str) -> None:
        contents = survey_contents(canister, path, self.parts.ledger)
        for each, place in contents:
            self._add(content, self.parts.write(each, place, canister), place)
        if not contents and isinstance(canister, (AssistantCanister, UserCanister)):
            self.parts.ledger.drop(path, "the vendor rejects a message without parts")

    def _write_result(
        self, result: ResultCanister, extras: dict[str, Any], path: str
    ) -> list[dict[str, Any]]:
        call = self._calls.get(result.invocation_id, {"id": ""})
        name = result.name or call.get("name") or "function"
        written = write_result(result, name, extras, path, self.parts, takes_media=self.takes_media)
        if "id" not in call:  # the call had no id, so its result must not, either
            del written[0]["functionResponse"]["id"]
        return written


def write_call(
    invocation: InvocationCanister, extras: dict[str, Any], path: str, parts: PartsWriter
) -> dict[str, Any]:
    """Return the part of our invocation."""
    for index, content in enumerate(invocation.content):
        reason = f"a call cannot contain {content.type} content"
        parts.ledger.drop(f"{path}.content[{index}]", reason)
    arguments: Any = None
    if invocation.fault is None and invocation.form == "json":
        arguments = invocation.parse_arguments()
    else:
        parts.ledger.coerce(
            f"{path}.arguments", "arguments that are not an object are sent as text in one"
        )
        arguments = {"input": invocation.arguments}
    call: dict[str, Any] = {"name": invocation.name, "args": arguments}
    if not extras.keys() & NAMELESS.keys():
        call = {"id": invocation.invocation_id, **call}
    return merge({"functionCall": call}, extras)
