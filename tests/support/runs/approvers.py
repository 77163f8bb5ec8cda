"""Approvers for tests: one allows every call, the other denies every call."""

from __future__ import annotations

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.invocables.approvals import Approval, ApprovalRequest, allow, deny


@frozen
class AllowAll:
    """Approver that allows every call."""

    async def approve(self, request: ApprovalRequest) -> Approval:
        """Allow the call."""
        return allow(request)


@frozen
class DenyAll:
    """Approver that denies every call.

    Attributes:
        reason: Reason for the model.
    """

    reason: str = "Nobody can be asked for an approval here."

    async def approve(self, request: ApprovalRequest) -> Approval:
        """Deny the call."""
        return deny(request, self.reason)
