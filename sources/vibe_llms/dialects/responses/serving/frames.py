"""The frames of a stream: numbered events, most of them about the open item."""

from __future__ import annotations

from typing import Any, Final

import attrs
import msgspec

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import AnyContent, Native

encode: Final = msgspec.json.Encoder().encode


@define(eq=False)
class OpenItem:
    """An item that has begun.

    Attributes:
        index: Index among the items of the response.
        identity: Id of the item, which is in every event about the item.
        group: Group of the contents of a message; ``None`` for items that contents cannot join.
        contents: For a message, the complete contents, in order.
        canisters: For a call that a vendor executes, the call, and its result if it is known.
        native: Native data of the message.
        parts: The number of parts that have begun so far.
    """

    index: int
    identity: str
    kind: str
    group: int | None = None
    contents: list[AnyContent] = attrs.field(factory=list)
    canisters: list[AnyCanister] = attrs.field(factory=list)
    native: Native | None = None
    parts: int = 0


class Frames:
    """Writes events, and numbers them."""

    def __init__(self) -> None:
        self._count = 0

    def take_number(self) -> int:
        """Return the number of the next event."""
        self._count += 1
        return self._count - 1

    def write(self, kind: str, **fields: Any) -> bytes:
        """Return the frame of an event."""
        data = encode({"type": kind, **fields, "sequence_number": self.take_number()})
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)

    def write_about(self, kind: str, item: OpenItem, **fields: Any) -> bytes:
        """Return the frame of an event about an item."""
        return self.write(kind, item_id=item.identity, output_index=item.index, **fields)

    def compose_head(self, kind: str, item: OpenItem, **indices: int) -> bytes:
        """Return the beginning of a delta event, which all deltas of one kind share."""
        fields = {"type": kind, "item_id": item.identity, "output_index": item.index, **indices}
        return b'event: %b\ndata: %b,"delta":' % (kind.encode(), encode(fields)[:-1])

    def write_delta(self, head: bytes, text: str, fields_after: bytes) -> bytes:
        """Return the frame of a delta.

        Args:
            head: The beginning, of :meth:`compose_head`.
            fields_after: The encoded fields after the text, up to the sequence number.
        """
        return b"%b%b%b%d}\n\n" % (head, encode(text), fields_after, self.take_number())
