"""Task flows: a file with a goal, a model, prompts and a Mermaid diagram, and the diagram runs.

May import the instruments and whatever lies below. Refuses to know the command line, and any
vendor: a prompt of a flow is asked as every other is, by an engine, so that tools, approvals,
limits and the log are those that there are.
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
