"""Bytes and frames: how a request goes out and how its answer comes back.

May import the exceptions, limits and secrets. Refuses to know canisters, dialects and vendors,
and never sends a request twice: what may be repeated is decided above. Three transports stand
behind one seam: ``DirectTransport`` (connections of our own, in ``http``), ``SdkTransport`` (an
official client object that somebody else made) and ``MemoryTransport`` (a function in this
process). What they receive is cut into frames by the machines for server-sent events and for
lines of JSON.
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
