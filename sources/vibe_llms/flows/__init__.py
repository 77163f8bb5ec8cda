"""Task flows: a file with a goal, a model, prompts and a Mermaid diagram, and the diagram runs.

May import the instruments and the packages below. Must not know the command line or any vendor:
an engine sends the prompts of a flow like all others, so that the usual tools, approvals, limits
and logs apply.
"""

from __future__ import annotations

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.flows.adapter import UniversalAdapter as UniversalAdapter
    from vibe_llms.flows.adapter import execute_task as execute_task
    from vibe_llms.flows.adapter import run_task as run_task
    from vibe_llms.flows.results import AdapterResult as AdapterResult
    from vibe_llms.flows.settings import AdapterConfig as AdapterConfig

_MODULES = {
    "AdapterConfig": "settings",
    "AdapterResult": "results",
    "UniversalAdapter": "adapter",
    "execute_task": "adapter",
    "run_task": "adapter",
}
__all__ = sorted(_MODULES)

__getattr__, __dir__ = produce_attribute_access(__name__, _MODULES)
