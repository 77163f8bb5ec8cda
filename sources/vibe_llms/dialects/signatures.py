"""Envelopes for the signatures of other vendors, which clients return unchanged.

Vendors sign or encrypt the reasoning of their models, and require it unchanged in the next request.
A client of another protocol only returns the opaque field of that protocol: ``encrypted_content``,
``signature``, ``redacted_thinking.data``, ``thoughtSignature``, ``reasoning_details``. So a foreign
signature is written into that field, in an envelope that names its vendor. In a canister, the
envelope is the signature of a reasoning content. Each dialect has a field for such a signature.

The envelope also contains the signed text, because clients may shorten or drop that.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Final, TypeAlias, TypeGuard

import attrs
import msgspec

from vibe_llms.dialects.extras import make_native, read_native, write_json
from vibe_llms.events.stream import ContentStartedEvent, FinishedItem
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
)
from vibe_llms.messages.contents import AnyContent, Native, ReasoningContent, TextualContent
from vibe_llms.messages.field_types import evolve_unchecked
from vibe_llms.messages.requests import Response
from vibe_llms.messages.texts import BOUNDARY
from vibe_llms.messages.views import list_plain_texts

# A multiple of three characters, so that its base64 does not depend on what follows.
_BEGINNING: Final = "vibe-seal"
MARK: Final = b64encode(_BEGINNING.encode()).decode()
"""Prefix of an envelope. The whole envelope is valid base64, as some client libraries require."""

_ESCAPES: Final = {">": "\\u003e", "?": "\\u003f", "~": "\\u007e"}
"""Escapes of characters that differ between the two base64 alphabets, which libraries mix up."""

_SIGNING: Final = ("thoughtSignature", "extra_content")
"""Native fields with which a vendor signs a text or a call."""


class SealedData(msgspec.Struct, omit_defaults=True):
    """Signed data that must be returned to its vendor.

    Attributes:
        protocol: The protocol of the data.
        provider: The provider of the data; empty if it is unknown.
        data: Fields of the vendor's protocol, as JSON.
        text, summary: The reasoning that was signed.
        signature: Its signature.
        call: Id of the invocation, if one was signed instead of reasoning.
        is_text: Whether a text was signed. The envelope then becomes an empty text after that text.
        execution: A call that the vendor executed, or its result, as a stored canister; see
            :mod:`.executions`.
    """

    protocol: str
    data: str
    provider: str = ""
    text: str = ""
    summary: tuple[str, ...] = ()
    signature: str = ""
    call: str = ""
    is_text: bool = False
    execution: str = ""

    @property
    def readable(self) -> str:
        """The reasoning as the client has seen it."""
        return self.text or BOUNDARY.join(self.summary)


_DECODER: Final = msgspec.json.Decoder(SealedData)


def is_wrapped(signature: str | None) -> TypeGuard[str]:
    """Return whether a signature is an envelope."""
    return signature is not None and signature.startswith(MARK)


def seal(envelope: SealedData) -> str:
    """Return an envelope as a signature."""
    text = json.dumps(msgspec.to_builtins(envelope), separators=(",", ":"))
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    text += " " * (-len(text) % 3)  # so that it needs no padding
    return MARK + b64encode(text.encode()).decode()


def read_sealed(signature: str) -> SealedData | None:
    """Return the envelope; ``None`` if it is damaged.

    A client can forge an envelope, but gains nothing: it could send the data in the vendor's own
    protocol.
    """
    try:
        envelope = _DECODER.decode(b64decode(signature.removeprefix(MARK), validate=True))
        fields = msgspec.json.decode(envelope.data, type=dict[str, Any])
    except (binascii.Error, ValueError, *UNREADABLE):
        return None
    is_signature = bool(envelope.call) or envelope.is_text
    return None if is_signature and not fields.keys() <= {*_SIGNING} else envelope


def read_provider(signature: str) -> str:
    """Return the provider named in an envelope; empty if it is unknown."""
    envelope = read_sealed(signature)
    return "" if envelope is None else envelope.provider


@frozen(kw_only=True)
class WrappedItem:
    """An item of an answer for a client of another protocol.

    Attributes:
        item: The item without the vendor's data, or with the envelope as its signature.
        carrier: Empty reasoning that holds the envelope, for items without a signature field.
    """

    item: FinishedItem
    carrier: ReasoningContent | None = None


def wrap_item(item: FinishedItem, protocol: str, provider: str) -> WrappedItem:
    """Wrap a finished content or invocation of an answer.

    Args:
        protocol: The client's protocol; native data of this protocol need no envelope.
        provider: The provider of the answer.
    """
    native = getattr(item, "native", None)
    if not isinstance(native, Native) or native.protocol == protocol:
        return WrappedItem(item=item)
    envelope = SealedData(protocol=native.protocol, provider=provider, data=native.data)
    if isinstance(item, ReasoningContent):
        if item.signature is None:
            return WrappedItem(item=item)
        envelope.text, envelope.summary = item.text, item.summary
        envelope.signature = item.signature
        return WrappedItem(item=attrs.evolve(item, signature=seal(envelope), native=None))
    if not isinstance(item, (InvocationCanister, TextualContent)):
        return WrappedItem(item=item)
    fields = read_native(native, "item")
    if fields.keys().isdisjoint(_SIGNING):
        return WrappedItem(item=item)
    other_fields = {name: value for name, value in fields.items() if name not in _SIGNING}
    envelope.data = write_json({name: fields[name] for name in _SIGNING if name in fields})
    if isinstance(item, InvocationCanister):
        envelope.call = item.invocation_id
    else:
        envelope.is_text = True
    unsigned = attrs.evolve(
        item, native=make_native(native.protocol, other_fields) if other_fields else None
    )
    return WrappedItem(item=unsigned, carrier=ReasoningContent(signature=seal(envelope)))


def wrap_response(response: Response, protocol: str) -> Response:
    """Return a response with another vendor's signed data in envelopes.

    The envelope of a call precedes the call; that of a text comes last, as in a stream. The
    envelope of reasoning is in the same content as its text; in a stream, it may follow later.
    :func:`unwrap_signatures` reads both forms.
    """
    if None not in list_plain_texts(response.canisters):  # as of most answers; nothing is signed
        return response
    provider = response.metadata.origin.provider
    wrapped: list[AnyCanister] = []
    last: list[ReasoningContent] = []
    for canister in response.canisters:
        if isinstance(canister, InvocationCanister):
            call = wrap_item(canister, protocol, provider)
            assert isinstance(call.item, InvocationCanister)
            if call.carrier is not None:
                add_carrier(wrapped, call.carrier, canister.turn_id)
            wrapped.append(call.item)
        elif isinstance(canister, AssistantCanister):
            parts = [wrap_item(content, protocol, provider) for content in canister.content]
            contents: Any = [part.item for part in parts]
            is_changed = contents != [*canister.content]
            wrapped.append(attrs.evolve(canister, content=contents) if is_changed else canister)
            last += [part.carrier for part in parts if part.carrier is not None]
        else:
            wrapped.append(canister)
    for carrier in last:
        add_carrier(wrapped, carrier, wrapped[-1].turn_id)
    return evolve_unchecked(response, canisters=tuple(wrapped))


def wrap_start(start: ContentStartedEvent, protocol: str, provider: str) -> ReasoningContent | None:
    """Return the carrier to send before a call, if the call is already signed."""
    if start.kind != "invocation" or start.native is None:
        return None
    call = InvocationCanister(
        invocation_id=start.invocation_id or "", name=start.name or "", native=start.native
    )
    return wrap_item(call, protocol, provider).carrier


def add_carrier(wrapped: list[AnyCanister], carrier: ReasoningContent, turn_id: str | None) -> None:
    """Append a carrier to the last canister, or add a canister if that is of another turn."""
    last = wrapped[-1] if wrapped else None
    if isinstance(last, AssistantCanister) and last.turn_id == turn_id:
        wrapped[-1] = attrs.evolve(last, content=(*last.content, carrier))
    else:
        wrapped.append(AssistantCanister((carrier,), turn_id=turn_id))


def unwrap_signatures(canisters: Sequence[AnyCanister]) -> tuple[AnyCanister, ...]:
    """Restore the contents of the envelopes in a client's request; return the canisters."""
    if not have_envelopes(canisters):
        return tuple(canisters)
    visible = _index_visible_reasoning(canisters)
    envelopes: dict[_Position, SealedData] = {}
    removed: set[_Position] = set()
    calls: dict[str, SealedData] = {}
    for canister_index, canister in enumerate(canisters):
        for index, content in enumerate(canister.content if has_envelope(canister) else ()):
            envelope = _read_envelope(content)
            if envelope is None:
                continue
            position = (canister_index, index)
            if envelope.call:
                calls[envelope.call] = envelope
                removed.add(position)
            elif not envelope.is_text and not _read_text(content):
                # A stream has sent the text before the signature, so the text is another content.
                turn_id = canister.turn_id
                # Put the envelope in place of that content, or keep it as a content if there is
                # none.
                first, *others = visible.pop((turn_id, envelope.readable), [position])
                envelopes[first] = envelope
                removed.update(others, {position} - {first})
            else:
                envelopes[position] = envelope
    unwrapped: list[AnyCanister] = []
    for index, canister in enumerate(canisters):
        if isinstance(canister, AssistantCanister):
            unwrapped += _unwrap_canister(canister, index, envelopes, removed)
        else:
            unwrapped.append(_return_signature(canister, calls))
    return tuple(unwrapped)


_Position: TypeAlias = tuple[int, int]
"""Index of a canister, and index of a content in the canister."""


def have_envelopes(canisters: Sequence[AnyCanister]) -> bool:
    """Return whether a content of any canister is an envelope."""
    for canister in canisters:
        if canister.__class__ is AssistantCanister:
            for content in canister.content:
                if content.__class__ is ReasoningContent and has_envelope(canister):
                    return True
    return False


def has_envelope(canister: AnyCanister) -> bool:
    """Return whether a content of a canister is an envelope."""
    return isinstance(canister, AssistantCanister) and any(
        isinstance(content, ReasoningContent) and is_wrapped(content.signature)
        for content in canister.content
    )


def _read_envelope(content: AnyContent) -> SealedData | None:
    """Return the envelope of a content; ``None`` if there is no envelope, or a damaged one."""
    if isinstance(content, ReasoningContent) and is_wrapped(content.signature):
        return read_sealed(content.signature)
    return None


def _read_text(content: AnyContent) -> str:
    if not isinstance(content, ReasoningContent):
        return ""
    return content.text or BOUNDARY.join(content.summary)


def _index_visible_reasoning(
    canisters: Sequence[AnyCanister],
) -> dict[tuple[str | None, str], list[_Position]]:
    """Return the positions of reasoning without an envelope, by turn and joined text."""
    index_by_text: dict[tuple[str | None, str], list[_Position]] = {}
    for canister_index, canister in enumerate(canisters):
        if not isinstance(canister, AssistantCanister):
            continue
        positions: list[_Position] = []
        texts: list[str] = []
        for index, content in enumerate((*canister.content, None)):
            is_visible = isinstance(content, ReasoningContent) and not is_wrapped(content.signature)
            if content is not None and is_visible:
                positions.append((canister_index, index))
                texts.append(_read_text(content))
            elif positions:
                index_by_text.setdefault((canister.turn_id, "".join(texts)), positions)
                positions, texts = [], []
    return index_by_text


def _unwrap_canister(
    canister: AssistantCanister,
    canister_index: int,
    envelopes: Mapping[_Position, SealedData],
    removed: Set[_Position],
) -> Iterator[AnyCanister]:
    """Split a canister so that each part has the contents of one vendor."""
    positions = [(canister_index, index) for index in range(len(canister.content))]
    if not any(position in envelopes or position in removed for position in positions):
        if has_envelope(canister):  # a damaged one: keep only the visible text
            yield attrs.evolve(canister, content=[*map(_remove_envelope, canister.content)])
        else:
            yield canister
        return
    contents: list[AnyContent] = []
    native = canister.native
    for position, content in zip(positions, canister.content, strict=True):
        if position in removed:
            continue
        envelope = envelopes.get(position)
        if envelope is None:
            contents.append(_remove_envelope(content))
            continue
        if contents:
            yield _produce_part(canister, contents, native)
            contents, native = [], None
        yield _produce_part(canister, [_restore(envelope)], None, _find_origin(envelope))
    if contents or native is not None:
        yield _produce_part(canister, contents, native)


def _remove_envelope(content: AnyContent) -> AnyContent:
    if isinstance(content, ReasoningContent) and is_wrapped(content.signature):
        return ReasoningContent(text=content.text, summary=content.summary)
    return content


def _produce_part(
    canister: AssistantCanister,
    contents: Sequence[AnyContent],
    native: Native | None,
    origin: Origin | None = None,
) -> AssistantCanister:
    return AssistantCanister(
        tuple(contents),
        timestamp=canister.timestamp,
        turn_id=canister.turn_id,
        native=native,
        origin=origin or canister.origin,
    )


def _restore(envelope: SealedData) -> AnyContent:
    native = Native(protocol=envelope.protocol, data=envelope.data)
    if envelope.is_text:
        return TextualContent("", native=native)
    return ReasoningContent(
        text=envelope.text,
        summary=envelope.summary,
        signature=envelope.signature or None,
        native=native,
    )


def _find_origin(envelope: SealedData) -> Origin | None:
    if not envelope.provider:
        return None
    return Origin(provider=envelope.provider, model="", protocol=envelope.protocol)


def _return_signature(canister: AnyCanister, calls: Mapping[str, SealedData]) -> AnyCanister:
    """Return an invocation with its signature."""
    if not isinstance(canister, InvocationCanister):
        return canister
    envelope = calls.get(canister.invocation_id)
    if envelope is None:
        return canister
    native = Native(protocol=envelope.protocol, data=envelope.data)
    return attrs.evolve(canister, native=native, origin=_find_origin(envelope) or canister.origin)
