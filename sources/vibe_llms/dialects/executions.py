"""Calls that another vendor executed itself, in the form of a client's protocol.

The client can read such a call and its result, and returns both with its next request. There, they
are recognized by their ids: the client's own vendor did not execute them, and would reject them.
The originals are in envelopes (:mod:`.signatures`) at the end of the answer, from which they are
restored for the vendor that executed them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs

from vibe_llms.dialects.extras import make_native
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.signatures import (
    SealedData,
    add_carrier,
    has_envelope,
    is_wrapped,
    read_sealed,
    seal,
)
from vibe_llms.exceptions import CodecError, ParseError
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.messages.canisters import (
    AnyCanister,
    InvocationCanister,
    Origin,
    Owner,
    ResultCanister,
)
from vibe_llms.messages.codec.canister_lines import decode_canister, encode_canister
from vibe_llms.messages.contents import AnyContent, Citation, ReasoningContent, TextualContent
from vibe_llms.messages.requests import Response

_MARK: Final = "_vibe_"
_CODE_FIELDS: Final = ("code", "command")
_Item = TypeVar("_Item")
_Canister = TypeVar("_Canister", bound=AnyCanister)


def compose_id(prefix: str, invocation_id: str) -> str:
    """Return the id of another vendor's call in a client's protocol."""
    return prefix + _MARK + _clean(invocation_id)


def _clean(invocation_id: str) -> str:
    return re.sub("[^A-Za-z0-9_]", "", invocation_id)[:48]


def is_foreign_id(identity: object) -> bool:
    """Return whether the id of a call is one of :func:`compose_id`."""
    return isinstance(identity, str) and _MARK in identity


def leave_to_its_vendor(canister: _Canister, identity: object) -> _Canister:
    """Return a client's call or result; without native data if another vendor executed it.

    Args:
        identity: The id of the call in the client's request.
    """
    return attrs.evolve(canister, native=None) if is_foreign_id(identity) else canister


@frozen
class ExecutionForms:
    """The forms of executed calls in one protocol.

    Attributes:
        protocol: The protocol.
        write_call: Returns the native fields of a call; ``None`` if the protocol has no such call.
        write_result: Returns the native fields of a result, from the result and the native fields
            of its call; ``None`` if the protocol cannot represent it.
        read_call: Reads native fields again, so that the arguments are those in the fields.
    """

    protocol: str
    write_call: Callable[[InvocationCanister], dict[str, Any] | None]
    write_result: Callable[[ResultCanister, dict[str, Any]], dict[str, Any] | None]
    read_call: Callable[[dict[str, Any]], InvocationCanister] | None = None


@define
class ExecutionAdopter:
    """Gives the calls and results of other vendors the native data of a client's protocol."""

    forms: ExecutionForms
    _calls: dict[str, dict[str, Any]] = attrs.field(factory=dict, init=False)

    def adopt(self, item: _Item) -> _Item:
        """Return a call or a result with native data of the protocol; anything else unchanged."""
        if not isinstance(item, (InvocationCanister, ResultCanister)):
            return item
        native = item.native
        is_own = native is not None and native.protocol == self.forms.protocol
        if item.owner is not Owner.VENDOR or is_own:
            return item
        if isinstance(item, InvocationCanister):
            fields = self.forms.write_call(item)
            if fields is not None:
                self._calls[item.invocation_id] = fields
        else:
            call = self._calls.get(item.invocation_id)
            fields = None if call is None else self.forms.write_result(item, call)
        if fields is None:
            return item
        native = make_native(self.forms.protocol, fields)
        adopted: Any = attrs.evolve(item, native=native, origin=None)
        if isinstance(item, InvocationCanister) and self.forms.read_call is not None:
            read = self.forms.read_call(fields)
            adopted = attrs.evolve(adopted, arguments=read.arguments, form=read.form)
        return adopted  # type: ignore[no-any-return]


def seal_execution(
    execution: InvocationCanister | ResultCanister, provider: str
) -> ReasoningContent | None:
    """Return the envelope of a call or a result; ``None`` if its vendor needs none.

    Args:
        provider: The provider of the answer.
    """
    native = execution.native
    if native is None:
        return None
    text = encode_canister(attrs.evolve(execution, origin=None, turn_id=None)).decode()
    envelope = SealedData(protocol=native.protocol, provider=provider, data="{}", execution=text)
    return ReasoningContent(signature=seal(envelope))


def restore_executions(canisters: Sequence[AnyCanister]) -> Sequence[AnyCanister]:
    """Replace the calls and results in a client's request by the originals in its envelopes."""
    originals: dict[tuple[str, str], InvocationCanister | ResultCanister] = {}
    remaining: list[AnyCanister] = []
    for canister in canisters:
        if not has_envelope(canister):
            remaining.append(canister)
            continue
        contents = []
        for content in canister.content:
            original = _open_execution(content)
            if original is None:
                contents.append(content)
            else:
                originals[original.role, _clean(original.invocation_id)] = original
        if contents:
            is_changed = len(contents) < len(canister.content)
            remaining.append(attrs.evolve(canister, content=contents) if is_changed else canister)
    return [_restore(canister, originals) for canister in remaining] if originals else canisters


def _open_execution(content: AnyContent) -> InvocationCanister | ResultCanister | None:
    if not isinstance(content, ReasoningContent) or not is_wrapped(content.signature):
        return None
    envelope = read_sealed(content.signature)
    if envelope is None or not envelope.execution:
        return None
    try:
        canister = decode_canister(envelope.execution)
    except CodecError:
        return None
    if not isinstance(canister, (InvocationCanister, ResultCanister)):
        return None
    native = canister.native if canister.owner is Owner.VENDOR else None
    if native is None or native.protocol != envelope.protocol:
        return None
    origin = Origin(provider=envelope.provider, model="", protocol=envelope.protocol)
    return attrs.evolve(canister, origin=origin)


def _restore(
    canister: AnyCanister,
    originals: Mapping[tuple[str, str], InvocationCanister | ResultCanister],
) -> AnyCanister:
    if not isinstance(canister, (InvocationCanister, ResultCanister)):
        return canister
    _, mark, identity = canister.invocation_id.partition(_MARK)
    original = originals.get((canister.role, identity)) if mark else None
    return canister if original is None else attrs.evolve(original, turn_id=canister.turn_id)


def adopt_executions(response: Response, forms: ExecutionForms, ledger: Ledger) -> Response:
    """Return a response with the calls of other vendors in the form of the client's protocol."""
    if not any(getattr(each, "owner", None) is Owner.VENDOR for each in response.canisters):
        return response
    adopter = ExecutionAdopter(forms)
    canisters: list[AnyCanister] = []
    carriers: list[ReasoningContent] = []
    for index, canister in enumerate(response.canisters):
        adopted = adopter.adopt(canister)
        if adopted is not canister and isinstance(canister, (InvocationCanister, ResultCanister)):
            reason = "another vendor executed this; the client receives what its protocol can show"
            ledger.coerce(f"canisters[{index}]", reason)
            carrier = seal_execution(canister, response.metadata.origin.provider)
            carriers += [] if carrier is None else [carrier]
        canisters.append(adopted)
    for carrier in carriers:
        add_carrier(canisters, carrier, canisters[-1].turn_id)
    return attrs.evolve(response, canisters=canisters)


def read_fields(call: InvocationCanister) -> dict[str, Any]:
    """Return the arguments of a call; code has the name ``code``."""
    if call.form == "text":
        return {"code": call.arguments}
    try:
        arguments = call.parse_arguments()
    except ParseError:
        return {}
    return dict(arguments) if isinstance(arguments, dict) else {}


def read_code(call: InvocationCanister) -> str:
    """Return the code of a call."""
    fields = read_fields(call)
    return next((str(fields[name]) for name in _CODE_FIELDS if name in fields), "")


def read_query(call: InvocationCanister) -> str:
    """Return the query of a search; the first one of several."""
    fields = read_fields(call)
    queries = fields.get("queries")
    first = queries[0] if isinstance(queries, list) and queries else ""
    return str(fields.get("query") or first)


def read_result_text(result: ResultCanister) -> str:
    """Return the text of a result."""
    texts = [each.text for each in result.content if isinstance(each, TextualContent)]
    return "\n".join(texts)


def list_sources(result: ResultCanister) -> list[Citation]:
    """Return the pages that a search found."""
    return [
        citation
        for content in result.content
        if isinstance(content, TextualContent)
        for citation in content.citations
        if citation.url
    ]
