"""Guarded requests: the texts of a conversation, examined before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from vibe_llms.guards.active import ActiveGuard, ChangeText, redact_texts
from vibe_llms.guards.texts import rewrite_all, rewrite_canister
from vibe_llms.messages.field_types import evolve_unchecked
from vibe_llms.messages.losses import Loss, Translation, refuse_losses
from vibe_llms.messages.requests import Request
from vibe_llms.plugins.specification.guards import Inspection


async def guard_request(
    guards: Iterable[ActiveGuard], request: Request, model: str
) -> Translation[Request]:
    """Return a request that the guards let pass; each sees the changes of those before it.

    Args:
        model: Address of the model.

    Raises:
        TranslationLossError: A guard changes the request, and it is strict.
        ConverseError: A guard refuses it, or cannot examine it.
    """
    losses: dict[Loss, None] = {}
    for active in guards:
        if "request" not in active.parts:
            continue
        inspection = Inspection(part="request", texts=(), model=model, request=request)
        translation = await redact_texts(active, partial(_rewrite, request), inspection)
        request = translation.value
        losses.update(dict.fromkeys(translation.losses))
    if request.strict:
        refuse_losses(tuple(losses))
    return Translation(request, tuple(losses))


def _rewrite(request: Request, change: ChangeText) -> Request:
    canisters = rewrite_all(request.canisters, "canisters", rewrite_canister, change)
    if canisters is request.canisters:
        return request
    return evolve_unchecked(request, canisters=canisters)
