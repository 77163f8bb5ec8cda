"""The programs that we start: guarded, bounded, interrupted and ended in one way.

Between us and a program stands a watchdog (``watchdog``), so that nothing which we have started
outlives us, whatever ends us. A ``Program`` is one that runs while we do other things: an MCP
server, a server of models, a command of the shell. ``run_program`` runs one to its end: pip, or a
module of a plugin that is asked for its hooks. May import the keys' concealment; refuses to know
why a program is started, and what it says.

The process that applies strangers' schemas (``invocables.validator_process``) is none of these:
it is our own code, ends by itself when its input does, and limits itself.
"""

from __future__ import annotations

from vibe_llms.laziness import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.processes.outputs import OutputLog
    from vibe_llms.processes.programs import Program
    from vibe_llms.processes.running import Ended, run_program

__all__ = ["Ended", "OutputLog", "Program", "run_program"]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "Ended": "running",
        "OutputLog": "outputs",
        "Program": "programs",
        "run_program": "running",
    },
)
