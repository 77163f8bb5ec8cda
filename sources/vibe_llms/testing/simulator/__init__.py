"""Vendor simulator: a real HTTP server on loopback that is faithful to each protocol.

For tests of clients, this package's and others'. May import the exceptions and plain data. Must not
know the dialects: it is written from the protocols alone, so that both can be compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.foundation.lazy_imports import produce_attribute_access

if TYPE_CHECKING:
    from vibe_llms.testing.simulator.faults import BACKGROUND_FAULTS as BACKGROUND_FAULTS
    from vibe_llms.testing.simulator.faults import BATCH_FAULTS as BATCH_FAULTS
    from vibe_llms.testing.simulator.faults import FAULTS as FAULTS
    from vibe_llms.testing.simulator.faults import FILE_FAULTS as FILE_FAULTS
    from vibe_llms.testing.simulator.faults import LIVE_FAULTS as LIVE_FAULTS
    from vibe_llms.testing.simulator.faults import QUIRKS as QUIRKS
    from vibe_llms.testing.simulator.scripts import Cite as Cite
    from vibe_llms.testing.simulator.scripts import Compute as Compute
    from vibe_llms.testing.simulator.scripts import Draw as Draw
    from vibe_llms.testing.simulator.scripts import Invoke as Invoke
    from vibe_llms.testing.simulator.scripts import Raw as Raw
    from vibe_llms.testing.simulator.scripts import Refuse as Refuse
    from vibe_llms.testing.simulator.scripts import Say as Say
    from vibe_llms.testing.simulator.scripts import ScriptedAnswer as ScriptedAnswer
    from vibe_llms.testing.simulator.scripts import Search as Search
    from vibe_llms.testing.simulator.scripts import Speak as Speak
    from vibe_llms.testing.simulator.scripts import Think as Think
    from vibe_llms.testing.simulator.scripts import Tokens as Tokens
    from vibe_llms.testing.simulator.server import Simulator as Simulator
    from vibe_llms.testing.simulator.server import SynchronousSimulator as SynchronousSimulator

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "BACKGROUND_FAULTS": "faults",
        "BATCH_FAULTS": "faults",
        "FILE_FAULTS": "faults",
        "Cite": "scripts",
        "Compute": "scripts",
        "Draw": "scripts",
        "FAULTS": "faults",
        "Invoke": "scripts",
        "LIVE_FAULTS": "faults",
        "QUIRKS": "faults",
        "Raw": "scripts",
        "Refuse": "scripts",
        "Say": "scripts",
        "Search": "scripts",
        "Simulator": "server",
        "Speak": "scripts",
        "SynchronousSimulator": "server",
        "Think": "scripts",
        "Tokens": "scripts",
        "ScriptedAnswer": "scripts",
    },
)
