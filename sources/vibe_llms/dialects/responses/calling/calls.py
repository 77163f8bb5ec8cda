"""Invocations and results as items."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from vibe_llms.dialects.extras import is_mark, merge
from vibe_llms.dialects.invocations import write_arguments
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.payloads import encode_payload
from vibe_llms.dialects.plain import OURS
from vibe_llms.dialects.responses.calling import hosted
from vibe_llms.dialects.responses.calling.completion import complete_call
from vibe_llms.dialects.responses.calling.items import CUSTOM_NOTE
from vibe_llms.dialects.responses.calling.parts import PartsWriter
from vibe_llms.dialects.responses.calling.tool_outputs import write_tool_output
from vibe_llms.dialects.responses.namespaces import (
    SEARCH,
    QualifiedName,
    read_qualified_name,
    write_tool_name,
)
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import InvocationCanister, Owner, ResultCanister
from vibe_llms.messages.contents import ImageContent

_KEPT_FIELDS: Final = ("type", "sources")


def produce_item_id(prefix: str, identity: str, count: int = 0) -> str:
    """Return an id in the vendor's format, derived from the id of a canister."""
    text = re.sub("[^A-Za-z0-9_-]", "", identity)[:48]  # with the prefix, below the 64 allowed
    return f"{prefix}_{text}_{count}" if count else f"{prefix}_{text}"


@define
class CallsWriter:
    """Writes invocations, and results in the form of their invocations.

    Attributes:
        is_answer: Whether the items are in a response, where each item needs a unique id.
        qualified_names: The qualified names of tools in namespaces, by their names in the
            conversation.
    """

    parts: PartsWriter
    is_answer: bool = False
    qualified_names: Mapping[str, QualifiedName] = attrs.field(factory=dict)
    _written: dict[str, dict[str, Any]] = attrs.field(factory=dict, init=False)

    @property
    def ledger(self) -> Ledger:
        """The ledger for losses."""
        return self.parts.ledger

    def write_plain(
        self, canister: InvocationCanister, native_fields: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the item of a usual invocation of a request.

        Args:
            native_fields: The id and the status of its item, if known.
        """
        identity = canister.invocation_id
        item = {
            "type": "function_call",
            "call_id": identity,
            "name": canister.name,
            "arguments": write_arguments(canister, PROTOCOL),
            **native_fields,
        }
        self._written[identity] = item
        return item

    def answers_function(self, canister: ResultCanister) -> bool:
        """Return whether a result answers a function call that was written."""
        if canister.owner is not OURS:
            return False
        call = self._written.get(canister.invocation_id)
        return call is not None and call.get("type") == "function_call"

    def write_invocation(self, canister: InvocationCanister, path: str) -> dict[str, Any] | None:
        """Return the item of an invocation; ``None``, with a loss, if it is not sent."""
        is_vendors = canister.owner is Owner.VENDOR
        if is_vendors and not self.ledger.admits_execution(canister, path):
            return None
        for index, content in enumerate(canister.content):
            reason = f"a call cannot contain {content.type} content"
            self.ledger.drop(f"{path}.content[{index}]", reason)
        extras = self.ledger.read_sendable(canister.native, path, canister)
        item = self._write_call(canister, path, extras)
        self._written[canister.invocation_id] = item
        return item

    def _write_call(
        self, canister: InvocationCanister, path: str, extras: Mapping[str, Any]
    ) -> dict[str, Any]:
        if "type" in extras:
            return self._write_hosted(canister, path, extras)
        if self.qualified_names.get(canister.name) == SEARCH:
            return self._write_search(canister, path)
        is_custom = canister.form == "text"
        item: dict[str, Any] = {
            "type": "custom_tool_call" if is_custom else "function_call",
            "call_id": canister.invocation_id,
            **write_tool_name(canister.name, read_qualified_name(extras), self.qualified_names),
            "input" if is_custom else "arguments": write_arguments(canister, PROTOCOL),
        }
        if self._needs_id(canister, extras):
            item["id"] = produce_item_id("ctc" if is_custom else "fc", canister.id)
            item |= {} if is_custom else {"status": "completed"}
        return merge(item, extras)

    def _write_search(self, canister: InvocationCanister, path: str) -> dict[str, Any]:
        """Return the item of a tool search by another vendor's model."""
        arguments: dict[str, Any] = {}
        if canister.fault is None:
            arguments = canister.parse_arguments()
        else:
            self.ledger.drop(f"{path}.arguments", canister.fault)
        item = {"type": "tool_search_call", "call_id": canister.invocation_id}
        return {
            **item,
            "id": produce_item_id("tsc", canister.id),
            "execution": "client",
            "arguments": arguments,
            "status": "completed",
        }

    def _needs_id(
        self, canister: InvocationCanister | ResultCanister, extras: Mapping[str, Any]
    ) -> bool:
        """Return whether an item needs a new id: it is in a response, and comes from elsewhere."""
        is_own = canister.origin is not None and canister.origin.protocol == PROTOCOL
        return self.is_answer and not is_own and "id" not in extras

    def _write_hosted(
        self, canister: InvocationCanister, path: str, extras: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the vendor's item, with the common fields that were changed later."""
        item = dict(extras)
        original = hosted.read_call(item)
        if original.arguments != canister.arguments:
            self._replace_arguments(item, canister, path)
        if canister.owner is Owner.OURS and original.invocation_id != canister.invocation_id:
            id_field = "call_id" if item.get("call_id") else "id"
            item[id_field] = canister.invocation_id
        return item

    def _replace_arguments(
        self, item: dict[str, Any], canister: InvocationCanister, path: str
    ) -> None:
        if canister.form == "text" and "code" in item:
            item["code"] = canister.arguments
            return
        if isinstance(item.get("arguments"), str):
            item["arguments"] = canister.arguments
            return
        for field in ("action", "operation", "arguments"):
            if isinstance(item.get(field), Mapping) and canister.fault is None:
                # The arguments of a search lack the type of the action and its sources.
                kept = {name: item[field][name] for name in _KEPT_FIELDS if name in item[field]}
                item[field] = {**kept, **canister.parse_arguments()}
                return
        self.ledger.drop(f"{path}.arguments", "this call cannot represent changed arguments")

    def write_result(self, canister: ResultCanister, path: str) -> dict[str, Any] | None:
        """Return the item of a result.

        The item is ``None`` if the item of the call includes the result, or, with a loss, if the
        result is not sent.
        """
        if canister.owner is Owner.VENDOR:
            return self._write_vendor_result(canister, path)
        call = self._written.get(canister.invocation_id, {})
        extras = dict(self.ledger.read_sendable(canister.native, path, canister))
        output_type = (
            hosted.OUTPUTS_BY_CALL.get(str(call.get("type"))) if call else extras.get("type")
        )
        if output_type in hosted.OUTPUTS:
            return write_tool_output(canister, str(output_type), extras, path, self.ledger)
        is_custom = (
            call.get("type") == "custom_tool_call" if call else bool(extras.get(CUSTOM_NOTE))
        )
        kind = "custom_tool_call_output" if is_custom else "function_call_output"
        if canister.is_error:
            self.ledger.drop(
                f"{path}.is_error",
                "this protocol cannot mark a result as an error; only its content says so",
            )
        output = self.parts.write_content(canister, path)
        item = {"type": kind, "call_id": canister.invocation_id, "output": output}
        if self._needs_id(canister, extras):
            item |= {"id": produce_item_id("fco", canister.id), "status": "completed"}
        if not canister.invocation_id:
            del item["call_id"]
        return merge(item, extras)

    def _write_vendor_result(self, canister: ResultCanister, path: str) -> dict[str, Any] | None:
        """Return the result of a call that a vendor executed itself, if it is a separate item."""
        if not self.ledger.admits_execution(canister, path):
            return None
        extras = self.ledger.read_sendable(canister.native, path, canister)
        call_id = extras.get("$within")
        if call_id is None:
            return extras
        for name in sorted(name for name in extras if not is_mark(name)):
            self.ledger.drop(f"{path}.native", f"{name}: its call already contains it")
        call = self._written.get(str(call_id))
        if call is None:
            self.ledger.withhold(path, "it belongs to a call that is not sent")
        elif call.get("type") == "image_generation_call" and canister.content:
            self._restore_image(call, canister, path)
        elif self.is_answer:
            complete_call(call, canister)
        return None

    def _restore_image(self, call: dict[str, Any], canister: ResultCanister, path: str) -> None:
        image = canister.content[0]
        if isinstance(image, ImageContent) and isinstance(call, dict):
            call["result"] = encode_payload(image, f"{path}.content[0]")
