"""Approvers for tests: one who allows everything, and one who allows nothing."""

from __future__ import annotations

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.invocables.approvals import Approval, ApprovalRequest, allow, deny


@frozen
class AllowAll:
    """Lets every call be executed: for what runs where nothing can be harmed."""

    async def approve(self, request: ApprovalRequest) -> Approval:
        """Allow it."""
        return allow(request)


@frozen
class DenyAll:
    """Refuses every call that needs an approval: for where nobody can be asked.

    Attributes:
        reason: What the model is told.
    """

    reason: str = "Nobody can be asked for an approval here."

    async def approve(self, request: ApprovalRequest) -> Approval:
        """Deny it."""
        return deny(request, self.reason)
