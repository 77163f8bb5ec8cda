"""Tools for models: functions with a schema, a description, limits and a known effect.

An invoker is one tool; an ensemble holds related tools with one life cycle; a registry connects
ensembles and gives every invoker a unique name. May import the messages, the errors, and the token
counters. Must not know conversations, the engine that decides about calls, or the approver.
"""

from __future__ import annotations

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.invocables.call_execution import perform
    from vibe_llms.invocables.contexts import InvocationContext
    from vibe_llms.invocables.costs import measure_schemas
    from vibe_llms.invocables.ensembles import Ensemble, FunctionsEnsemble
    from vibe_llms.invocables.invokers import invocable, produce_invoker
    from vibe_llms.invocables.libraries import produce_prompt, produce_resource
    from vibe_llms.invocables.registry import Registry
    from vibe_llms.invocables.validation import produce_validator

__all__ = [
    "Ensemble",
    "FunctionsEnsemble",
    "InvocationContext",
    "Registry",
    "invocable",
    "measure_schemas",
    "perform",
    "produce_invoker",
    "produce_prompt",
    "produce_resource",
    "produce_validator",
]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "Ensemble": "ensembles",
        "FunctionsEnsemble": "ensembles",
        "InvocationContext": "contexts",
        "Registry": "registry",
        "invocable": "invokers",
        "measure_schemas": "costs",
        "perform": "call_execution",
        "produce_invoker": "invokers",
        "produce_prompt": "libraries",
        "produce_resource": "libraries",
        "produce_validator": "validation",
    },
)
