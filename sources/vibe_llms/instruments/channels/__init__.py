"""Channels: a model, a prompt, a parser and the state of a conversation, put together.

May import the other instruments and whatever lies below. Refuses to know how a model is asked or
a tool is performed: a channel composes what is to be said, and hands it on.
"""

from __future__ import annotations

from vibe_llms.laziness import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.instruments.channels.asynchronous import AsyncChannel as AsyncChannel
    from vibe_llms.instruments.channels.composing import Composing as Composing
    from vibe_llms.instruments.channels.replies import Reply as Reply
    from vibe_llms.instruments.channels.synchronous import SyncChannel as SyncChannel
    from vibe_llms.instruments.channels.tools import ToolChannel as ToolChannel

_HOMES = {
    "AsyncChannel": "asynchronous",
    "Composing": "composing",
    "Reply": "replies",
    "SyncChannel": "synchronous",
    "ToolChannel": "tools",
}
__all__ = sorted(_HOMES)

__getattr__, __dir__ = produce_attribute_access(__name__, _HOMES)
