"""Approval requests of a turn, and their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from vibe_llms.engine.contexts import RunContext
from vibe_llms.engine.prepared_calls import Call
from vibe_llms.engine.recovery import Record
from vibe_llms.events.engine import ApprovalAnsweredEvent, ApprovalRequestedEvent
from vibe_llms.events.runs import ApprovalRefusedEvent
from vibe_llms.exceptions import ConverseError, RequestError, Stage
from vibe_llms.foundation.portal import finish
from vibe_llms.invocables.approvals import Approval, ApprovalRequest, Approver, settle


class ApprovalGate:
    """Requests approvals, from the approver or from the log of the run.

    Args:
        context: Context of the run.
        record: Facts from the log.
        approver: Asked about one request after the other; ``None`` if nothing here can answer.
        answers: Approvals given in advance; each applies to one invocation, unless its scope is
            larger.
    """

    def __init__(
        self,
        context: RunContext,
        record: Record,
        approver: Approver | None,
        answers: Sequence[Approval],
    ) -> None:
        self._context = context
        self._record = record
        self._approver = approver
        self._answers = list(answers)
        self._asking: tuple[Call, asyncio.Task[Approval | None]] | None = None

    def cancel_if_answered(self) -> None:
        """Cancel the current question to the approver if the log has an answer now."""
        if self._asking is not None:
            call, asking = self._asking
            if self._is_answered(call):
                asking.cancel()

    def _is_answered(self, call: Call) -> bool:
        request = call.request
        return request is None or bool(
            self._record.find_approval(
                call.key, request.digest, request.name, in_doubt=request.in_doubt
            )
        )

    async def ask(self, calls: Sequence[Call]) -> tuple[ApprovalRequest, ...]:
        """Ask about the calls of a turn that wait for approvals.

        Returns:
            The requests that are not answered.

        Raises:
            ConverseError: The approver failed, or its answer is invalid.
        """
        unanswered: list[ApprovalRequest] = []
        for call in calls:
            request = call.request
            if request is None or self._is_answered(call):
                continue  # the scope of another answer includes it
            await self._context.emit(_produce_event(call.key, request))
            approval = await self._wait(call, request)
            if self._is_answered(call):  # in the meantime, by another process
                if approval is not None:
                    refused = ApprovalRefusedEvent(key=call.key, digest=approval.digest)
                    await self._context.emit(refused, durable=True)
            elif approval is None:
                unanswered.append(request)
            else:
                settle(request, approval)  # refuses an answer to another request
                event = produce_answer(call.key, request, approval)
                await self._context.emit(event, durable=True)
                self._record.add(event)
        return tuple(unanswered)

    async def _wait(self, call: Call, request: ApprovalRequest) -> Approval | None:
        """Ask the approver, and wait for an answer by the approver or in the log."""
        if self._approver is None:
            return await self._find_answer(request)
        asking = asyncio.create_task(self._find_answer(request))
        self._asking = call, asking
        try:
            await asyncio.wait([asking])
        except asyncio.CancelledError:
            asking.cancel()
            await finish(asyncio.wait([asking]))
            raise
        finally:
            self._asking = None
        return None if asking.cancelled() and self._is_answered(call) else asking.result()

    async def _find_answer(self, request: ApprovalRequest) -> Approval | None:
        for answer in self._answers:
            if answer.digest == request.digest:
                self._answers.remove(answer)  # it applies to one call; an equal call needs another
                return answer
        if self._approver is None:
            return None
        try:
            approval: object = await self._approver.approve(request)
        except ConverseError:
            raise
        except Exception as error:
            raise ConverseError(
                detail=f"Requesting approval for {request.name} failed: {error}.",
                remedy="No call of the turn was executed; run the conversation again.",
                stage=Stage.EXECUTE,
            ) from error
        if approval is None or isinstance(approval, Approval):
            return approval
        raise RequestError(
            path="approver",
            detail=f"The approver of {request.name} returned {type(approval).__name__}.",
            remedy="Return an Approval (the result of allow, deny or edit), or None to leave the "
            "request open.",
            stage=Stage.EXECUTE,
        )


def produce_answer(key: str, request: ApprovalRequest, approval: Approval) -> ApprovalAnsweredEvent:
    """Return the event that records the answer to a request.

    Args:
        key: Id of the call's canister.
    """
    return ApprovalAnsweredEvent(
        key=key,
        name=request.name,
        digest=approval.digest,
        decision=approval.decision.value,
        arguments=approval.arguments,
        reason=approval.reason,
        scope=approval.scope.value,
    )


def _produce_event(key: str, request: ApprovalRequest) -> ApprovalRequestedEvent:
    return ApprovalRequestedEvent(
        key=key,
        invocation_id=request.invocation_id,
        name=request.name,
        arguments=request.arguments,
        digest=request.digest,
        description=request.description,
        effect=request.effect,
        in_doubt=request.in_doubt,
    )
