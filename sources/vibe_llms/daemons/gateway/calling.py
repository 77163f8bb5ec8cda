"""Calls without a stream, such as embeddings: passed through, or translated and split."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, cast

import attrs
import msgspec

from vibe_llms.daemons.bodies import decode_body, perform_sized
from vibe_llms.daemons.gateway.calls import GatewayCall
from vibe_llms.daemons.gateway.passthrough import pass_through
from vibe_llms.daemons.gateway.request_limits import ensure_bounds
from vibe_llms.daemons.gateway.translating import compose_headers, is_strict
from vibe_llms.dialects.calls import ClientForm
from vibe_llms.instruments.genera import CONCURRENCY, call_in_parts
from vibe_llms.messages.losses import Translation, refuse_losses
from vibe_llms.messages.moderations import join_moderations
from vibe_llms.messages.vectors import join_vectors
from vibe_llms.models.genera import Genus
from vibe_llms.providers.calls import RemoteCallModel
from vibe_llms.providers.interfaces import CallModel

_JOINS: Final[Mapping[Genus, Callable[[Any], Any]]] = {
    Genus.EMBEDDER: join_vectors,
    Genus.MODERATOR: join_moderations,
}
"""Functions that join the results of a call that was split."""


async def answer_call(call: GatewayCall, *, form: ClientForm[Any, Any]) -> None:
    """Answer a call: pass it through if the vendor speaks the client's protocol, else translate it.

    Raises:
        ConverseError: The upstream failed, or the call is invalid for it.
    """
    model = cast(CallModel[Any, Any], call.upstream.model)
    if isinstance(model, RemoteCallModel) and model.protocol == form.protocol != "":
        await pass_through(call)
        return
    record = call.record
    native, normalized = await perform_sized(call.request.body, partial(_read, call, form))
    record.way, record.losses = "translate", normalized.losses
    result = await _perform(call.face.genus, model, normalized.value)
    record.usage, record.losses = result.usage, (*normalized.losses, *result.losses)
    answer = msgspec.json.encode(form.write(result, native, call.request.model))
    record.sent_bytes = len(answer)
    await call.http.answer(200, answer, compose_headers(call.http, record.losses))


def _read(call: GatewayCall, form: ClientForm[Any, Any]) -> tuple[dict[str, Any], Translation[Any]]:
    """Return the decoded body, and the normalized request in it. Raises ConverseError."""
    native = decode_body(call.request.body)
    ensure_bounds(native, call.gateway.request_limits)
    normalized = form.read(native)
    if not is_strict(call):
        return native, normalized
    refuse_losses(normalized.losses)
    return native, Translation(attrs.evolve(normalized.value, strict=True))


async def _perform(genus: Genus, model: CallModel[Any, Any], request: Any) -> Any:
    if genus is Genus.RANKER:
        from vibe_llms.instruments.rankers import rank_with

        return await rank_with(model, request)
    return _JOINS[genus](await call_in_parts(model, request, CONCURRENCY))
