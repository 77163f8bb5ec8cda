"""Transports and framing: HTTP requests, responses, and the events in them.

May import the exceptions, limits and secrets. Must not know canisters, dialects and vendors, and
never sends a request twice: upper layers decide about retries. There are three transports:
``DirectTransport`` (own connections, in ``http``), ``SdkTransport`` (the client object of an
official package) and ``MemoryTransport`` (a function in this process). Framers split a body into
server-sent events or lines of JSON.
"""

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.wire.direct import DirectTransport
    from vibe_llms.wire.exchanges import Exchange, Timeouts, Transport, WireRequest
    from vibe_llms.wire.memory import MemoryTransport
    from vibe_llms.wire.sdk import SdkTransport

__all__ = [
    "DirectTransport",
    "Exchange",
    "MemoryTransport",
    "SdkTransport",
    "Timeouts",
    "Transport",
    "WireRequest",
]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "DirectTransport": "direct",
        "Exchange": "exchanges",
        "MemoryTransport": "memory",
        "SdkTransport": "sdk",
        "Timeouts": "exchanges",
        "Transport": "exchanges",
        "WireRequest": "exchanges",
    },
)
