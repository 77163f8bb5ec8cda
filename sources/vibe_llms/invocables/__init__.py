"""What a model may invoke: functions with a schema, a purpose, limits and a known effect.

An invoker is one of them; an ensemble holds related ones with one life; a registry connects
ensembles and gives every invoker a name of its own. May import the messages, the errors, and
what counts tokens. Refuses to know conversations, the engine that decides what is invoked, and
who is asked for an approval.
"""

from __future__ import annotations

from vibe_llms.laziness import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.invocables.approvals import (
        AllowAll,
        Approval,
        ApprovalRequest,
        Approver,
        Decision,
        DenyAll,
        Remembering,
        Scope,
        produce_approval_request,
        settle,
    )
    from vibe_llms.invocables.calls import (
        canonicalize,
        compose_result,
        digest_call,
        group_identical,
        read_arguments,
    )
    from vibe_llms.invocables.contexts import InvocationContext
    from vibe_llms.invocables.costs import measure_schemas
    from vibe_llms.invocables.deduplicators import (
        ByArgument,
        ByArguments,
        Deduplicator,
        trim_stale,
    )
    from vibe_llms.invocables.ensembles import Ensemble, FunctionsEnsemble, gather_ensembles
    from vibe_llms.invocables.invokers import Effect, Invoker, invocable, produce_invoker
    from vibe_llms.invocables.outcomes import Outcome
    from vibe_llms.invocables.performing import perform
    from vibe_llms.invocables.registry import Registry
    from vibe_llms.invocables.validation import Fault, Validator, produce_validator

__all__ = [
    "AllowAll",
    "Approval",
    "ApprovalRequest",
    "Approver",
    "ByArgument",
    "ByArguments",
    "Decision",
    "Deduplicator",
    "DenyAll",
    "Effect",
    "Ensemble",
    "Fault",
    "FunctionsEnsemble",
    "InvocationContext",
    "Invoker",
    "Outcome",
    "Registry",
    "Remembering",
    "Scope",
    "Validator",
    "canonicalize",
    "compose_result",
    "digest_call",
    "gather_ensembles",
    "group_identical",
    "invocable",
    "measure_schemas",
    "perform",
    "produce_approval_request",
    "produce_invoker",
    "produce_validator",
    "read_arguments",
    "settle",
    "trim_stale",
]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "AllowAll": "approvals",
        "Approval": "approvals",
        "ApprovalRequest": "approvals",
        "Approver": "approvals",
        "ByArgument": "deduplicators",
        "ByArguments": "deduplicators",
        "Decision": "approvals",
        "Deduplicator": "deduplicators",
        "DenyAll": "approvals",
        "Effect": "invokers",
        "Ensemble": "ensembles",
        "Fault": "validation",
        "FunctionsEnsemble": "ensembles",
        "InvocationContext": "contexts",
        "Invoker": "invokers",
        "Outcome": "outcomes",
        "Registry": "registry",
        "Remembering": "approvals",
        "Scope": "approvals",
        "Validator": "validation",
        "canonicalize": "calls",
        "compose_result": "calls",
        "digest_call": "calls",
        "gather_ensembles": "ensembles",
        "group_identical": "calls",
        "invocable": "invokers",
        "measure_schemas": "costs",
        "perform": "performing",
        "produce_approval_request": "approvals",
        "produce_invoker": "invokers",
        "produce_validator": "validation",
        "read_arguments": "calls",
        "settle": "approvals",
        "trim_stale": "deduplicators",
    },
)
