"""One answer in a chat: by a single request, or by an engine, which executes calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from vibe_llms.exceptions import Stage, TrustError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.instruments.models import Model
from vibe_llms.interfaces.cli.chat.output import ChatOutput
from vibe_llms.interfaces.cli.chat.pieces import produce_events
from vibe_llms.interfaces.cli.chat.session import INPUT_ROLES, ChatSession
from vibe_llms.interfaces.cli.chat.statuses import ChatStatus, describe_cut
from vibe_llms.messages.canisters import AnyCanister, Origin, SummarizedPart
from vibe_llms.messages.endings import Shortfall, produce_error
from vibe_llms.messages.losses import Loss

if TYPE_CHECKING:
    from vibe_llms.engine.contexts import RunEvent
    from vibe_llms.invocables.approvals import ApprovalRequest


@frozen(kw_only=True)
class TurnResult:
    """Result of one turn of the model.

    Attributes:
        text: The text of the answer.
        origin: Origin of its last turn; ``None`` if the model returned nothing.
        canisters: All added canisters, including calls and their results.
        waiting: The calls that wait for an approval.
        shortfall: The reason why the answer is incomplete.
    """

    text: str
    origin: Origin | None
    duration_seconds: float
    canisters: tuple[AnyCanister, ...]
    losses: tuple[Loss, ...]
    waiting: tuple[ApprovalRequest, ...] = ()
    shortfall: Shortfall | None = None

    @property
    def cut(self) -> str:
        """The reason why the answer is incomplete, for the user; empty if it is complete."""
        if self.shortfall is None:
            return "" if self.canisters or self.waiting else "The model returned no text."
        return self.shortfall.detail if not self.shortfall.limit else describe_cut(self.origin)


def describe_waiting(session: ChatSession, waiting: Sequence[ApprovalRequest]) -> TrustError:
    """Print how to approve waiting calls if no user can be asked, and return the error."""
    from vibe_llms.interfaces.cli.approving import advise_to_answer
    from vibe_llms.interfaces.cli.output import note
    from vibe_llms.interfaces.cli.program import compose_again

    names = list(dict.fromkeys(each.name for each in waiting))
    identity = session.conversation.id
    note(advise_to_answer(identity, "runs", "resume", identity, *session.tool_options))
    if not any(each.in_doubt for each in waiting):
        note(f"To allow it: {compose_again('--allow', ','.join(names))}")
    return TrustError(
        detail=f"{', '.join(names)} awaits approval, and there is no terminal to ask at.",
        remedy="Answer it from another terminal, then resume the run.",
        stage=Stage.EXECUTE,
    )


async def answer(session: ChatSession, output: ChatOutput) -> TurnResult:
    """Get the model's answer and execute its calls; also store what is received before an error.

    Raises:
        ConverseError: No answer, or an incomplete one.
    """
    metadata = session.conversation.metadata
    session.conversation.metadata = attrs.evolve(metadata, model=session.model_name)
    output.begin(session.model_name)
    try:
        await _make_room(session, output)
        if session.registry is not None or _needs_engine(session):
            return await _run_engine(session, output)
        return await _ask_model(session, output)
    finally:
        output.finish()


async def _make_room(session: ChatSession, output: ChatOutput) -> None:
    """Continue in a compacted fork if the conversation has reached the model's window."""
    part = await session.make_room()
    if part is not None:
        output.remark(f"The model's window was full. {describe_compaction(session, part)}")


def describe_compaction(session: ChatSession, part: SummarizedPart) -> str:
    """Say where a compacted conversation continues, and the usage of the summary."""
    from vibe_llms.providers.summaries import describe_usage

    kept = "" if session.store is None else f"; `vibe show --whole` shows {part.conversation} too"
    return (
        f"Continuing in {session.conversation.id}, which begins with the model's summary"
        f"{describe_usage(part.origins)}{kept}."
    )


async def continue_run(session: ChatSession, output: ChatOutput) -> TurnResult:
    """Continue an unfinished run with an engine, and deliver messages that were sent to it.

    Raises:
        ConverseError: The run failed.
    """
    output.begin(session.model_name)
    try:
        return await _run_engine(session, output)
    finally:
        output.finish()


def _needs_engine(session: ChatSession) -> bool:
    """Return whether the last turn can be continued only by an engine.

    If its tools are missing now, the engine reports that to the model.
    """
    last = session.conversation.last_message
    if last is None or last.role in INPUT_ROLES:
        return False
    return session.status in (ChatStatus.UNFINISHED, ChatStatus.BROKEN)


async def _ask_model(session: ChatSession, output: ChatOutput) -> TurnResult:
    """Answer without tools by a single request."""
    model = session.produce_model()
    request = model.request(session.conversation, **session.compose_options())
    canisters: tuple[AnyCanister, ...] = ()
    try:
        if session.stream:
            async with model.stream(request) as stream:
                try:
                    async for event in stream:
                        output.feed(event)
                    response = await stream.response()
                finally:
                    canisters = stream.canisters
        else:
            response = await model.answer(request, stream=False)
            canisters = response.canisters
            for event in produce_events(canisters, response.losses):
                output.feed(event)
    finally:
        session.store_canisters(canisters)
    session.summaries += response.metadata.summaries
    session.note_losses(response.losses)
    shortfall = response.shortfall
    if shortfall is not None and shortfall.is_failure:
        raise produce_error(shortfall)
    return TurnResult(
        text=response.text,
        origin=response.metadata.origin,
        duration_seconds=response.metadata.duration_seconds,
        canisters=response.canisters,
        losses=response.losses,
        shortfall=shortfall,
    )


async def _run_engine(session: ChatSession, output: ChatOutput) -> TurnResult:
    """Run the engine until the model's answer and its calls are complete."""
    from vibe_llms.instruments.engines import Engine

    def listen(event: RunEvent) -> None:
        if session.odometer is not None:
            session.odometer(event)
        output.feed(event)

    engine = Engine(
        Model(session.address, application=session.application, strict=session.strict),
        () if session.registry is None else session.registry,
        approver=session.approver,
        limits=session.limits,
        store=session.store,
        listener=listen,
        stream=session.stream,
        controls=dict(session.controls),
        schema=session.schema,
    )
    run = engine.prepare(session.conversation)
    try:
        outcome = await run.perform()
    finally:
        session.conversation = run.conversation
        if run.outcome is not None:
            session.summaries += run.outcome.summaries
            session.note_losses(run.outcome.losses)
    if not session.stream:
        for event in produce_events(outcome.canisters, outcome.losses):
            output.feed(event)
    if outcome.error is not None:
        raise outcome.error
    shortfall = outcome.shortfall
    if shortfall is not None and shortfall.is_failure:
        raise produce_error(shortfall)
    origin = find_origin(outcome.canisters)
    if outcome.reason != "answered" and outcome.detail and shortfall is None:
        output.remark(outcome.detail)
    return TurnResult(
        text=outcome.text,
        origin=origin,
        duration_seconds=outcome.readings.seconds,
        canisters=outcome.canisters,
        losses=outcome.losses,
        waiting=outcome.requests,
        shortfall=shortfall,
    )


def find_origin(canisters: Sequence[AnyCanister]) -> Origin | None:
    """Return the origin of the last canister that came from a model."""
    origins = (canister.origin for canister in reversed(canisters))
    return next((origin for origin in origins if origin is not None), None)
