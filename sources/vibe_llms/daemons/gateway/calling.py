"""Calls outside of a conversation: passed through, or translated and split."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

import attrs
import msgspec

from vibe_llms.daemons.asgi import JSON
from vibe_llms.daemons.bodies import decode_body, decode_form_fields, perform_sized
from vibe_llms.daemons.gateway.calls import GatewayCall
from vibe_llms.daemons.gateway.passthrough import pass_through
from vibe_llms.daemons.gateway.request_limits import ensure_bounds
from vibe_llms.daemons.gateway.translating import compose_headers, is_strict
from vibe_llms.dialects.calls import ClientFormat, PieceWriter
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.forms import EncodedBody, FormField
from vibe_llms.instruments.embedders import embed_with
from vibe_llms.instruments.illustrators import draw_with
from vibe_llms.instruments.moderators import moderate_with
from vibe_llms.instruments.rankers import rank_with
from vibe_llms.messages.losses import Translation, refuse_losses
from vibe_llms.models.genera import Genus
from vibe_llms.providers.call_observing import observe_calls
from vibe_llms.providers.calls import RemoteCallModel
from vibe_llms.providers.interfaces import CallModel
from vibe_llms.providers.piece_streams import open_stream

_DIGITS: Final = 10
"""More digits are no number of results."""

_PERFORM: Final[Mapping[Genus, Callable[[Any, Any], Awaitable[Any]]]] = {
    Genus.EMBEDDER: embed_with,
    Genus.ILLUSTRATOR: draw_with,
    Genus.MODERATOR: moderate_with,
    Genus.RANKER: rank_with,
}
"""Functions that answer a call with a model of a genus; the model itself answers the others."""


async def answer_call(call: GatewayCall, *, client_format: ClientFormat[Any, Any]) -> None:
    """Answer a call: pass it through if the vendor uses the client's protocol, else translate it.

    Raises:
        ConverseError: The upstream failed, or the call is invalid for the upstream.
    """
    model = cast(CallModel[Any, Any], call.upstream.model)
    if isinstance(model, RemoteCallModel) and model.protocol == client_format.protocol != "":
        if client_format.path:
            call.request = call.request.move(client_format.path)
        await pass_through(call)
        return
    record = call.record
    model = observe_calls(model, call.face.genus, call.gateway.call_listeners)
    native, translation = await perform_sized(
        call.request.body, partial(_read, call, client_format)
    )
    record.way, record.losses = "translate", translation.losses
    writer = None if client_format.produce_writer is None else client_format.produce_writer(native)
    if writer is not None:
        await _stream(call, model, translation.value, writer)
        return
    result = await _perform(call.face.genus, model, translation.value)
    record.usage, record.losses = result.usage, (*translation.losses, *result.losses)
    answer = client_format.write(result, native, call.request.model)
    if not isinstance(answer, EncodedBody):
        answer = EncodedBody(msgspec.json.encode(answer), JSON)
    record.sent_bytes = len(answer.data)
    headers = compose_headers(call.http, record.losses)
    await call.http.answer(200, answer.data, headers, content_type=answer.content_type)


def _read(
    call: GatewayCall, client_format: ClientFormat[Any, Any]
) -> tuple[dict[str, Any], Translation[Any]]:
    """Return the decoded body and the normalized request. Raises ConverseError."""
    fields = call.request.fields
    native = decode_body(call.request.body) if fields is None else _decode_form(fields)
    ensure_bounds(native, call.gateway.request_limits)
    translation = client_format.read(native)
    if not is_strict(call):
        return native, translation
    refuse_losses(translation.losses)
    return native, Translation(attrs.evolve(translation.value, strict=True))


def _decode_form(fields: Sequence[FormField]) -> dict[str, Any]:
    """Return the fields of a form; the number of results as a number, so that it is limited."""
    native = decode_form_fields(fields)
    count = native.get("n")
    if isinstance(count, str) and count.isdecimal() and len(count) < _DIGITS:
        native["n"] = int(count)
    return native


async def _perform(genus: Genus, model: CallModel[Any, Any], request: Any) -> Any:
    perform = _PERFORM.get(genus)
    return await (model.call(request) if perform is None else perform(model, request))


async def _stream(
    call: GatewayCall, model: CallModel[Any, Any], request: Any, writer: PieceWriter
) -> None:
    """Send the pieces of a result as they arrive. Raises ConverseError before the first one."""
    http, record = call.http, call.record

    async def send(data: bytes) -> None:
        if not http.status:
            headers = compose_headers(http, record.losses)
            await http.begin(200, {"content-type": writer.content_type, **headers})
        if data:
            record.sent_bytes += len(data)
            await http.send(data)

    try:
        async with open_stream(model, request) as stream:
            async for piece in stream:
                await send(writer.feed(piece))
            result = await stream.result()
    except ConverseError as error:
        if http.status:
            record.error, record.detail = error.WORD, str(error)
        raise
    record.usage, record.losses = result.usage, (*record.losses, *result.losses)
    await send(writer.finish(result))
    await http.finish()
