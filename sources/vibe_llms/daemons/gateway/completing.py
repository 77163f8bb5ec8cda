"""Completions of prompts: passed through, or answered by conversations, one for each choice."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import attrs
import msgspec

from vibe_llms.daemons.asgi import drop_frames
from vibe_llms.daemons.bodies import decode_body, perform_sized, refuse_count
from vibe_llms.daemons.gateway.calls import GatewayCall
from vibe_llms.daemons.gateway.choice_streams import CONCURRENCY, ChoiceStreams
from vibe_llms.daemons.gateway.keep_alive import KeepAliveStream
from vibe_llms.daemons.gateway.loss_headers import LOSSES_HEADER, write_ranked
from vibe_llms.daemons.gateway.passthrough import pass_through
from vibe_llms.daemons.gateway.request_limits import ensure_bounds
from vibe_llms.daemons.gateway.translating import (
    compose_headers,
    is_strict,
    translate,
)
from vibe_llms.dialects.call_quirks import CompletionQuirks
from vibe_llms.dialects.chat_completions.serving.completions import (
    CompletionCall,
    CompletionWriter,
    nativize_completion,
    normalize_completion,
)
from vibe_llms.events.stream import (
    LossEvent,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.field_types import evolve_unchecked
from vibe_llms.messages.losses import Loss, refuse_losses
from vibe_llms.messages.requests import Request, Response
from vibe_llms.messages.views import add_usages
from vibe_llms.providers.interfaces import ConverserModel
from vibe_llms.providers.remote_models import RemoteModel

if TYPE_CHECKING:
    from vibe_llms.providers.filling import FillingModel

_DEFAULTS: Final[Mapping[str, Any]] = {"best_of": 1, "echo": False, "logit_bias": {}, "n": 1}
"""Values of fields that change nothing."""


async def complete(call: GatewayCall) -> None:
    """Pass a call through if the vendor has completions; else ask for each choice.

    Raises:
        ConverseError: The upstream failed, or the request is invalid for the upstream.
    """
    model = call.upstream.model
    native = await perform_sized(call.request.body, partial(_decode, call))
    if path := find_path(model, native):
        call.request = call.request.move(path)
        await pass_through(call)
        return
    filler = _find_filler(model, native)
    completion = _normalize(call, native, fills=filler is not None)
    call.record.way = "translate"
    if call.request.streaming:
        await _stream(call, filler or model, native, completion)
    else:
        await _answer(call, filler or model, completion)


async def fill(call: GatewayCall) -> None:
    """Pass a call of Mistral's clients through if the vendor has the path; else translate it."""
    quirks = _find_quirks(call.upstream.model)
    if quirks is not None and quirks.fim_path:
        call.request = call.request.move(quirks.fim_path)
        await pass_through(call)
    else:
        await translate(call)


def _find_filler(model: object, native: Mapping[str, Any]) -> FillingModel | None:
    """Return a model that takes the suffix; ``None`` if there is none, or no such model."""
    suffix, quirks = native.get("suffix"), _find_quirks(model)
    if not isinstance(suffix, str) or not suffix or quirks is None or not quirks.fim_path:
        return None
    from vibe_llms.providers.filling import FillingModel

    return FillingModel(cast(RemoteModel, model), quirks.fim_path, suffix)


def _find_quirks(model: object) -> CompletionQuirks | None:
    if not isinstance(model, RemoteModel):
        return None
    return model.client.vendor.find_completions(model.descriptor)


def find_path(model: object, native: Mapping[str, Any]) -> str:
    """Return the vendor's path for a call; empty if it cannot be passed through.

    It cannot if the vendor has no such path for the model, or ignores one of the fields.
    """
    quirks = _find_quirks(model)
    if quirks is None or not isinstance(model, RemoteModel):
        return ""
    if quirks.models and not model.descriptor.name.startswith(tuple(quirks.models)):
        return ""
    if not quirks.takes_lists and not isinstance(native.get("prompt"), str):
        return ""
    is_lacking = any(native.get(name) not in (None, _DEFAULTS.get(name)) for name in quirks.lacks)
    return "" if is_lacking else quirks.path


def _decode(call: GatewayCall) -> dict[str, Any]:
    native = decode_body(call.request.body)
    ensure_bounds(native, call.gateway.request_limits)
    return native


def _normalize(call: GatewayCall, native: Mapping[str, Any], *, fills: bool) -> CompletionCall:
    """Return the call; record its losses, or refuse them in strict mode. Raises ConverseError."""
    prompts, limit = native.get("prompt"), call.gateway.request_limits.choices
    choices = (len(prompts) if isinstance(prompts, list) else 1) * _read_number(native.get("n"))
    if choices > limit:
        raise refuse_count("choices", limit, f"{choices:,} choices")
    translation = normalize_completion(native, fills=fills)
    strict = is_strict(call)
    if strict:
        refuse_losses(translation.losses)
    call.record.losses = translation.losses
    address = call.upstream.address
    completion = translation.value
    return attrs.evolve(
        completion,
        requests=tuple(
            evolve_unchecked(each, model=address, strict=strict, lenient=not strict)
            for each in completion.requests
        ),
    )


def _read_number(value: Any) -> int:
    return value if isinstance(value, int) else 1


async def _answer(call: GatewayCall, converser: ConverserModel, completion: CompletionCall) -> None:
    choices = completion.list_choices()
    responses = await _ask_all(call, converser, [request for _, request in choices])
    record = call.record
    record.usage = add_usages(response.metadata.usage for response in responses)
    befores = [before for before, _ in choices]
    model = call.request.model or call.upstream.address
    answer = nativize_completion(list(zip(befores, responses, strict=True)), model)
    answer_losses = dict.fromkeys(loss for response in responses for loss in response.losses)
    record.losses = (*record.losses, *answer_losses, *answer.losses)
    data = msgspec.json.encode(answer.value)
    record.sent_bytes = len(data)
    await call.http.answer(200, data, compose_headers(call.http, record.losses))


async def _ask_all(
    call: GatewayCall, model: ConverserModel, requests: Sequence[Request]
) -> list[Response]:
    """Return the responses in order; the first error cancels the others. Raises ConverseError."""
    gate = asyncio.Semaphore(CONCURRENCY)

    async def ask(request: Request) -> Response:
        async with gate:
            return await model.converse(request, call.gateway.reactors, stream=False)

    if len(requests) == 1:
        return [await ask(requests[0])]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask(request)) for request in requests]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def _stream(
    call: GatewayCall,
    converser: ConverserModel,
    native: Mapping[str, Any],
    completion: CompletionCall,
) -> None:
    """Send the chunks of all choices as they arrive. Raises ConverseError before the first one."""
    http, record = call.http, call.record
    model = call.request.model or call.upstream.address
    writer = CompletionWriter(native, model=model)
    choices = completion.list_choices()
    requests = [request for _, request in choices]
    streams = ChoiceStreams(converser, requests, call.gateway.reactors)
    sending = KeepAliveStream(http, writer.keep_alive)
    begun: set[int] = set()
    losses: list[Loss] = []
    header_losses = 0
    is_whole = False
    try:
        while (received := await streams.receive()) is not None:
            choice, event = received
            if isinstance(event, LossEvent) and event.loss not in losses:  # each choice has it
                losses.append(event.loss)
            data = writer.write_event(choice, event)
            if data and choice not in begun:
                begun.add(choice)
                data = writer.begin(choice, choices[choice][0]) + data
            if data:
                if not http.status:
                    headers = compose_headers(http, (*record.losses, *losses))
                    header_losses = len(losses)
                    headers |= {"content-type": writer.content_type, "trailer": LOSSES_HEADER}
                    await http.begin(200, headers)
                record.sent_bytes += len(data)
                await sending.send(data)
        is_whole = True
        last = writer.finish()
    except ConverseError as error:
        if not http.status:
            raise
        record.error, record.detail = error.WORD, str(error)
        drop_frames(error)
        last = writer.fail(error)
    finally:
        await streams.close()
        await sending.close()
        record.losses = (*record.losses, *losses, *writer.losses)
        record.usage = streams.measure(call.upstream)
        record.is_estimated = not is_whole and record.usage is not None
    trailer = write_ranked((*losses[header_losses:], *writer.losses))
    if trailer:
        last = writer.add_note(last, LOSSES_HEADER, trailer.encode())
    record.sent_bytes += len(last)
    await http.finish(last, {LOSSES_HEADER: trailer} if trailer else {})
