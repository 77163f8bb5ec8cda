"""A2A 1.0 as a face of the daemon: JSON-RPC at ``POST /a2a``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, Final, TypeAlias

import attrs

from vibe_llms.daemons.agents.faces.a2a_card import PATH, VERSION
from vibe_llms.daemons.agents.faces.a2a_errors import (
    INTERNAL,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NO_EXTENDED_CARD,
    NO_PUSH,
    NOT_CANCELABLE,
    PARSE_ERROR,
    TASK_NOT_FOUND,
    UNSUPPORTED,
    VERSION_UNSUPPORTED,
    RpcError,
    compose_rpc_error,
    write_rpc_error,
)
from vibe_llms.daemons.agents.faces.a2a_loading import TaskLoader
from vibe_llms.daemons.agents.faces.a2a_requests import (
    SentMessage,
    read_history_length,
    read_sent_message,
    read_text,
)
from vibe_llms.daemons.agents.faces.a2a_tasks import (
    TaskName,
    TaskWriter,
    is_terminal,
)
from vibe_llms.daemons.agents.faces.serving import (
    SPEC_QUERIES,
    FaceParts,
    describe_failure,
    follow_run,
    read_spec,
    serve_run,
)
from vibe_llms.daemons.agents.faces.steps import identify_approval
from vibe_llms.daemons.agents.faces.threads import (
    RunPlace,
    Thread,
    advance,
    find_summary,
    find_thread,
    open_thread,
)
from vibe_llms.daemons.agents.route_access import RouteRow
from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.bodies import decode_body, perform_sized, read_json_body
from vibe_llms.exceptions import (
    AccessError,
    ConfigurationError,
    ConverseError,
    RequestError,
    UnknownConversationError,
    UnknownNameError,
)
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.invocables.approvals import Approval, Decision

_REQUEST: Final[JsonObject] = {
    "title": "A2aRequest",
    "type": "object",
    "required": ["jsonrpc", "method"],
    "properties": {
        "jsonrpc": {"const": "2.0"},
        "id": {"type": ["string", "integer", "null"]},
        "method": {"type": "string"},
        "params": {"type": "object"},
    },
}
_ANSWER: Final[JsonObject] = {
    "title": "A2aResponse",
    "type": "object",
    "required": ["jsonrpc", "id"],
    "properties": {
        "jsonrpc": {"const": "2.0"},
        "id": {"type": ["string", "integer", "null"]},
        "result": {},
        "error": {"type": "object", "required": ["code", "message"]},
    },
}
_WORDS: Final[Mapping[str, Decision]] = {"allow": Decision.ALLOW, "deny": Decision.DENY}
_MAX_PAGE: Final = 100
_PAGE: Final = 50

_Perform: TypeAlias = Callable[[HttpCall, Any, Mapping[str, Any], str], Awaitable[None]]


class A2aFace:
    """Request handlers for A2A.

    Args:
        parts: The parts of the daemon that faces share.
    """

    def __init__(self, parts: FaceParts) -> None:
        self._parts = parts
        self._runs = parts.runs
        self._tasks = TaskLoader(parts.runs)
        self._methods: Mapping[str, _Perform] = {
            "SendMessage": self._send,
            "SendStreamingMessage": self._send_streaming,
            "GetTask": self._get,
            "ListTasks": self._list,
            "CancelTask": self._cancel,
            "SubscribeToTask": self._subscribe,
        }

    def list_rows(self) -> list[RouteRow]:
        """Return the routes."""
        return [
            RouteRow(
                "POST",
                PATH,
                self._answer,
                "Answer a JSON-RPC request of A2A.",
                _REQUEST,
                answer=_ANSWER,
                queries=SPEC_QUERIES,
                request_headers={"A2A-Version": {"const": VERSION}},
                media_types=("application/json", "text/event-stream"),
                is_admitted=False,  # streams have a separate limit
                needs_host=True,
                write_error=write_rpc_error,
            )
        ]

    async def _answer(self, call: HttpCall, subject: str) -> None:
        with self._parts.streams.hold(call):
            body = await read_json_body(call)
            request_id: JsonValue = None
            try:
                with call.cancelling_on_disconnect():
                    request = await perform_sized(body, partial(_decode, body))
                request_id = _read_request_id(request)
                perform, params = self._choose(call, request)
                await perform(call, request_id, params, subject)
            except AccessError:
                raise
            except RpcError as error:
                await call.send_json(compose_rpc_error(request_id, error))
            except ConverseError as error:
                if call.status:
                    raise
                await call.send_json(compose_rpc_error(request_id, _classify(error)))

    def _choose(
        self, call: HttpCall, request: Mapping[str, Any]
    ) -> tuple[_Perform, Mapping[str, Any]]:
        """Return the handler of a request, and its parameters. Raises RpcError."""
        method, params = request.get("method"), request.get("params", {})
        if request.get("jsonrpc") != "2.0" or not isinstance(method, str):
            raise RpcError(INVALID_REQUEST, "The request must have jsonrpc: 2.0 and a method.")
        version = call.headers.get("a2a-version", "").strip()
        if version.split(".")[0] != VERSION.split(".")[0]:
            said = f"not {version[:20]!r}" if version else "and the header A2A-Version is missing"
            raise RpcError(VERSION_UNSUPPORTED, f"The daemon speaks A2A {VERSION}, {said}.")
        if method.endswith(("PushNotificationConfig", "PushNotificationConfigs")):
            raise RpcError(NO_PUSH, "The daemon sends no push notifications; use SubscribeToTask.")
        if method == "GetExtendedAgentCard":
            raise RpcError(NO_EXTENDED_CARD, "The daemon has only the public agent card.")
        perform = self._methods.get(method)
        if perform is None:
            raise RpcError(METHOD_NOT_FOUND, f"Unknown method {method[:80]!r}.")
        if not isinstance(params, Mapping):
            raise RpcError(INVALID_PARAMS, "The parameters must be an object.")
        return perform, params

    # --- methods ---------------------------------------------------------------------------------

    async def _send(
        self, call: HttpCall, request_id: JsonValue, params: Mapping[str, Any], subject: str
    ) -> None:
        sent, name, place = await self._deliver(call, params, subject)
        call.watch_client()  # the run continues without the client
        if not sent.is_immediate:
            async with aclosing(follow_run(self._parts, place, subject)) as steps:
                async for _ in steps:
                    pass
        fold, summary, waiting = await self._tasks.load(name, subject)
        fold.losses = sent.losses
        task = fold.write(summary, waiting, history_length=sent.history_length)
        await _respond(call, request_id, {"task": task})

    async def _send_streaming(
        self, call: HttpCall, request_id: JsonValue, params: Mapping[str, Any], subject: str
    ) -> None:
        sent, name, place = await self._deliver(call, params, subject)
        await self._stream(call, request_id, name, place, subject, sent)

    async def _subscribe(
        self, call: HttpCall, request_id: JsonValue, params: Mapping[str, Any], subject: str
    ) -> None:
        name, summary = await self._tasks.find(_read_id(params), subject)
        if is_terminal(summary):
            raise RpcError(UNSUPPORTED, f"The task {name} is over; use GetTask.")
        place = RunPlace(run_id=name.conversation, start=name.sequence, after=name.sequence)
        await self._stream(call, request_id, name, place, subject)

    async def _get(
        self, call: HttpCall, request_id: JsonValue, params: Mapping[str, Any], subject: str
    ) -> None:
        name = await self._tasks.name(_read_id(params), subject)
        fold, summary, waiting = await self._tasks.load(name, subject)
        length = read_history_length(params)
        await _respond(call, request_id, fold.write(summary, waiting, history_length=length))

    async def _cancel(
        self, call: HttpCall, request_id: JsonValue, params: Mapping[str, Any], subject: str
    ) -> None:
        name, summary = await self._tasks.find(_read_id(params), subject)
        if is_terminal(summary):
            raise RpcError(NOT_CANCELABLE, f"The task {name} is over.")
        await self._runs.stop(name.conversation, subject=subject)
        call.watch_client()  # the run stops without the client
        await self._runs.wait(name.conversation, subject=subject)
        fold, summary, waiting = await self._tasks.load(name, subject)
        await _respond(call, request_id, fold.write(summary, waiting))

    async def _list(
        self, call: HttpCall, request_id: JsonValue, params: Mapping[str, Any], subject: str
    ) -> None:
        size = params.get("pageSize", _PAGE)
        if isinstance(size, bool) or not isinstance(size, int) or not 0 < size <= _MAX_PAGE:
            raise RpcError(INVALID_PARAMS, f"pageSize must be between 1 and {_MAX_PAGE}.")
        runs = await self._tasks.survey(params, subject)
        token, start = read_text(params, "pageToken", "pageToken", default=""), 0
        if token:
            places = [index for index, each in enumerate(runs) if each.id == token]
            if not places:
                raise RpcError(INVALID_PARAMS, "The pageToken is unknown; begin again.")
            start = places[0] + 1
        page, tasks = runs[start : start + size], []
        length = read_history_length(params)
        for summary in page:
            name = TaskName(
                conversation=summary.id, sequence=await self._tasks.find_request(summary.id)
            )
            fold, found, waiting = await self._tasks.load(name, subject)
            tasks.append(
                fold.write(
                    found,
                    waiting,
                    history_length=0 if length is None else length,
                    includes_artifacts=params.get("includeArtifacts") is True,
                )
            )
        has_more = start + size < len(runs)
        result: JsonObject = {
            "tasks": list(tasks),
            "nextPageToken": page[-1].id if has_more else "",
            "pageSize": len(tasks),
            "totalSize": len(runs),
        }
        await _respond(call, request_id, result)

    # --- parts of methods ------------------------------------------------------------------------

    async def _deliver(
        self, call: HttpCall, params: Mapping[str, Any], subject: str
    ) -> tuple[SentMessage, TaskName, RunPlace]:
        """Add a message to its task; return the task and where to follow it."""
        sent = read_sent_message(params)
        spec = read_spec(call, sent.run, "metadata.run")
        thread = await self._find_thread(call, sent, subject)
        approvals, is_word = sent.approvals, False
        if thread.exists and not approvals and sent.word in _WORDS:
            approvals = await self._answer_by_word(thread, sent.word, subject)
            is_word = bool(approvals)
        new = []
        if sent.canister.content and not is_word:
            new = thread.select_new([(sent.message_id, sent.canister)])
        if new or approvals or not thread.exists:
            place, late = await advance(self._runs, call, thread, spec, new, approvals)
            losses = [f"The request for approval {each} does not wait." for each in late]
            sent = attrs.evolve(sent, losses=[*sent.losses, *losses])
        else:  # the request was repeated
            place = RunPlace(run_id=thread.conversation, start=1, after=0)
        sequence = await self._tasks.find_request(place.run_id)
        name = TaskName(conversation=place.run_id, sequence=sequence)
        after = max(sequence, place.after)
        return sent, name, RunPlace(run_id=place.run_id, start=sequence, after=after)

    async def _find_thread(self, call: HttpCall, sent: SentMessage, subject: str) -> Thread:
        if sent.task_id:
            name, summary = await self._tasks.find(sent.task_id, subject)
            if is_terminal(summary):
                detail = f"The task {name} is over; send the message with its contextId only."
                raise RpcError(UNSUPPORTED, detail)
            if sent.context_id not in ("", name.conversation):
                raise RpcError(INVALID_PARAMS, "The task belongs to another context.")
            return await open_thread(self._runs, call, name.conversation, subject)
        if sent.context_id:
            try:
                return await open_thread(self._runs, call, sent.context_id, subject)
            except UnknownConversationError:
                detail = "Unknown contextId. Leave it out to begin a conversation."
                raise RpcError(INVALID_PARAMS, detail) from None
        return await find_thread(self._runs, call, f"a2a {sent.message_id}", subject)

    async def _answer_by_word(
        self, thread: Thread, word: str, subject: str
    ) -> list[tuple[str, Approval]]:
        """Return the answer to the call that waits, if a single one does."""
        summary = await find_summary(self._runs, thread)
        if summary is None or summary.state != "waiting":
            return []
        waiting = await self._runs.survey_approvals(thread.conversation, subject=subject)
        if len(waiting) > 1:
            detail = "Several calls wait. Answer each by its id, in a data part with approvals."
            raise RpcError(INVALID_PARAMS, detail)
        approval = Approval(digest="", decision=_WORDS[word])
        return [(identify_approval(each.key, each.request.digest), approval) for each in waiting]

    async def _stream(
        self,
        call: HttpCall,
        request_id: JsonValue,
        name: TaskName,
        place: RunPlace,
        subject: str,
        sent: SentMessage | None = None,
    ) -> None:
        writer = TaskWriter(request_id, name)
        fold, summary, waiting = await self._tasks.load(name, subject)
        fold.losses = () if sent is None else sent.losses
        has_all = place.after > name.sequence  # else the artifacts follow from the first one on
        task = fold.write(
            summary,
            waiting,
            history_length=None if sent is None else sent.history_length,
            includes_artifacts=has_all,
        )
        await serve_run(
            call, self._parts, place, writer, subject=subject, beginning=[writer.wrap(task=task)]
        )


def _decode(body: bytes) -> Mapping[str, Any]:
    if body.lstrip()[:1] == b"[":
        raise RpcError(INVALID_REQUEST, "Batch requests are not supported.")
    try:
        return decode_body(body)
    except RequestError as error:
        raise RpcError(PARSE_ERROR, error.detail) from None


def _read_request_id(request: Mapping[str, Any]) -> JsonValue:
    value = request.get("id")
    is_valid = isinstance(value, (str, int)) and not isinstance(value, bool)
    return value if is_valid else None


def _read_id(params: Mapping[str, Any]) -> str:
    return read_text(params, "id", "id")


def _classify(error: ConverseError) -> RpcError:
    message = describe_failure(error)
    match error:
        case UnknownConversationError():
            return RpcError(TASK_NOT_FOUND, message)
        case RequestError() | ConfigurationError() | UnknownNameError():
            return RpcError(INVALID_PARAMS, message)
    return RpcError(INTERNAL, message)


async def _respond(call: HttpCall, request_id: JsonValue, result: JsonObject) -> None:
    await call.send_json({"jsonrpc": "2.0", "id": request_id, "result": result})
