"""A vendor simulator: a real HTTP server on loopback that is faithful to each protocol.

For tests of clients, ours and others'. May import the exceptions and plain data. Refuses to know
our dialects: what it says is written from the protocols alone, so that both can be held against
each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.laziness import produce_attribute_access

if TYPE_CHECKING:
    from .behaviour import produce_png as produce_png
    from .behaviour import produce_wav as produce_wav
    from .faults import FAULTS as FAULTS
    from .faults import QUIRKS as QUIRKS
    from .scripts import Cite as Cite
    from .scripts import Draw as Draw
    from .scripts import Invoke as Invoke
    from .scripts import Raw as Raw
    from .scripts import Refuse as Refuse
    from .scripts import Say as Say
    from .scripts import Search as Search
    from .scripts import Speak as Speak
    from .scripts import Think as Think
    from .scripts import Tokens as Tokens
    from .scripts import Turn as Turn
    from .server import ReceivedRequest as ReceivedRequest
    from .server import Simulator as Simulator
    from .threads import SynchronousSimulator as SynchronousSimulator

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "Cite": "scripts",
        "Draw": "scripts",
        "FAULTS": "faults",
        "Invoke": "scripts",
        "QUIRKS": "faults",
        "Raw": "scripts",
        "ReceivedRequest": "server",
        "Refuse": "scripts",
        "Say": "scripts",
        "Search": "scripts",
        "Simulator": "server",
        "Speak": "scripts",
        "SynchronousSimulator": "threads",
        "Think": "scripts",
        "Tokens": "scripts",
        "Turn": "scripts",
        "produce_png": "behaviour",
        "produce_wav": "behaviour",
    },
)
