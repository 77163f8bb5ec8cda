"""Completions of prompts: passed through, or answered by conversations, one for each choice."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec

from vibe_llms.daemons.asgi import drop_frames
from vibe_llms.daemons.bodies import decode_body, perform_sized, refuse_count
from vibe_llms.daemons.gateway.calls import GatewayCall
from vibe_llms.daemons.gateway.estimating import raise_output
from vibe_llms.daemons.gateway.keep_alive import KeepAliveStream
from vibe_llms.daemons.gateway.loss_headers import LOSSES_HEADER, write_ranked
from vibe_llms.daemons.gateway.passthrough import pass_through
from vibe_llms.daemons.gateway.request_limits import ensure_bounds
from vibe_llms.daemons.gateway.translating import (
    compose_headers,
    count_output,
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
    ResponseFailedEvent,
    ResponseFinishedEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.field_types import evolve_unchecked
from vibe_llms.messages.losses import Loss, refuse_losses
from vibe_llms.messages.requests import Request, Response
from vibe_llms.messages.views import add_usages
from vibe_llms.providers.interfaces import AsyncStream, ConverserModel
from vibe_llms.providers.remote_models import RemoteModel

if TYPE_CHECKING:
    from vibe_llms.daemons.gateway.upstreams import Upstream
    from vibe_llms.events.reactors import ConversationReactors

_CONCURRENCY: Final = 8
"""Maximum number of concurrent requests for the choices of one call."""

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
    completion = _normalize(call, native)
    call.record.way = "translate"
    if call.request.streaming:
        await _stream(call, native, completion)
    else:
        await _answer(call, completion)


async def fill(call: GatewayCall) -> None:
    """Pass a call of Mistral's clients through if the vendor has the path; else translate it."""
    quirks = _find_quirks(call.upstream.model)
    if quirks is not None and quirks.fim_path:
        call.request = call.request.move(quirks.fim_path)
        await pass_through(call)
    else:
        await translate(call)


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


def _normalize(call: GatewayCall, native: Mapping[str, Any]) -> CompletionCall:
    """Return the call; record its losses, or refuse them in strict mode. Raises ConverseError."""
    prompts, limit = native.get("prompt"), call.gateway.request_limits.choices
    choices = (len(prompts) if isinstance(prompts, list) else 1) * _read_number(native.get("n"))
    if choices > limit:
        raise refuse_count("choices", limit, f"{choices:,} choices")
    translation = normalize_completion(native)
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


async def _answer(call: GatewayCall, completion: CompletionCall) -> None:
    choices = completion.list_choices()
    responses = await _ask_all(call, [request for _, request in choices])
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


async def _ask_all(call: GatewayCall, requests: Sequence[Request]) -> list[Response]:
    """Return the responses in order; the first error cancels the others. Raises ConverseError."""
    model, gate = call.upstream.model, asyncio.Semaphore(_CONCURRENCY)

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


class _ChoiceStreams:
    """The streams of all choices, whose events are read from one queue.

    Args:
        model: Answers the requests.
        requests: One for each choice.
        reactors: Receive the events of the answers.
    """

    def __init__(
        self,
        model: ConverserModel,
        requests: Sequence[Request],
        reactors: ConversationReactors | None,
    ) -> None:
        self._model = model
        self._requests = requests
        self._reactors = reactors
        self._gate = asyncio.Semaphore(_CONCURRENCY)
        # Bounded, so that a client that reads slowly slows the vendor down.
        self._queue: asyncio.Queue[tuple[int, StreamEvent | Exception | None]] = asyncio.Queue(32)
        self._tasks: list[asyncio.Task[None]] = []
        self._ended = 0
        self._running: dict[int, AsyncStream] = {}
        self._usages: dict[int, Usage] = {}

    async def receive(self) -> tuple[int, StreamEvent] | None:
        """Return the next event and its choice; ``None`` at the end. Raises ConverseError."""
        if not self._tasks:
            produce = asyncio.get_running_loop().create_task
            self._tasks = [produce(self._follow(*each)) for each in enumerate(self._requests)]
        while self._ended < len(self._requests):
            choice, event = await self._queue.get()
            if isinstance(event, Exception):
                raise event
            if event is not None:
                return choice, event
            self._ended += 1
        return None

    async def _follow(self, choice: int, request: Request) -> None:
        stream = self._model.stream(request, self._reactors)
        try:
            async with self._gate, stream:
                self._running[choice] = stream
                async for event in stream:
                    self._note(choice, event)
                    if not isinstance(event, ResponseFailedEvent):  # its error is raised next
                        await self._queue.put((choice, event))
        except Exception as error:
            await self._queue.put((choice, error))
        else:
            await self._queue.put((choice, None))

    def _note(self, choice: int, event: StreamEvent) -> None:
        usage = event.usage if isinstance(event, UsageEvent) else None
        if isinstance(event, ResponseFinishedEvent) and event.response is not None:
            usage = event.response.metadata.usage
            del self._running[choice]
        if usage is not None:
            self._usages[choice] = usage

    def measure(self, upstream: Upstream) -> Usage | None:
        """Return the usage of all choices; the output of unfinished ones is estimated."""
        usages = dict(self._usages)
        for choice, stream in self._running.items():
            if choice in usages:
                tokens = count_output(stream.canisters, upstream)
                usages[choice] = raise_output(usages[choice], tokens)
        return add_usages(usages.values())

    async def close(self) -> None:
        """Stop all streams."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _stream(call: GatewayCall, native: Mapping[str, Any], completion: CompletionCall) -> None:
    """Send the chunks of all choices as they arrive. Raises ConverseError before the first one."""
    http, record = call.http, call.record
    model = call.request.model or call.upstream.address
    writer = CompletionWriter(native, model=model)
    choices = completion.list_choices()
    streams = _ChoiceStreams(
        call.upstream.model, [request for _, request in choices], call.gateway.reactors
    )
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
