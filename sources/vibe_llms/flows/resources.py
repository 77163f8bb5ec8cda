"""Application, tools and store that runs of tasks use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from vibe_llms.application import Application, access_application
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.flow import FlowEvent, VisitEvent
from vibe_llms.flows.predicates import Predicates
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.invocables.approvals import Approver
from vibe_llms.invocables.ensembles import Ensemble

ShareFunction: TypeAlias = Callable[[Iterable[Ensemble]], list[Ensemble]]
"""Function that returns ensembles to use in place of others."""

FlowListener: TypeAlias = Callable[[FlowEvent | VisitEvent], object]
"""Receives events of a flow's visits, and events within visits."""


@frozen(kw_only=True, eq=False)
class TaskResources:
    """Resources that all runs of an adapter share; see :class:`.adapter.UniversalAdapter`."""

    given_application: Application | None
    tools: tuple[Ensemble, ...]
    store: ConversationStore | None
    approver: Approver | None
    predicates: Predicates
    share: ShareFunction

    @property
    def application(self) -> Application:
        """Application that provides models and tools; by default, that of this process."""
        return self.given_application or access_application()
