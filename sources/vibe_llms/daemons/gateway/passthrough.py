"""Carries a request to an upstream of the same protocol, and the answer back, as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlencode

from vibe_llms.daemons.asgi import JSON, STAGE_HEADER, HttpCall
from vibe_llms.daemons.gateway.client_requests import ClientRequest, Face
from vibe_llms.daemons.gateway.stream_ends import EndWatch
from vibe_llms.daemons.gateway.usage_extraction import UsageExtractor
from vibe_llms.daemons.gateway.usage_filter import UsageFilter, ask_for_usage
from vibe_llms.daemons.records import CallRecord
from vibe_llms.dialects import chat_completions
from vibe_llms.exceptions import Stage
from vibe_llms.limits import Limits
from vibe_llms.providers.remote_models import RemoteModel
from vibe_llms.wire.exchanges import Exchange
from vibe_llms.wire.tracing import read_trace

_OURS: Final = frozenset({"access_token", "api-version", "key"})
"""In the query of a client: they are for us, as is the version of Azure's door."""

_KEPT: Final = frozenset(
    {
        "anthropic-organization-id",
        "openai-organization",
        "openai-project",
        "connection",
        "content-encoding",  # what was packed has been unpacked
        "content-length",
        "keep-alive",
        "proxy-authenticate",
        "proxy-connection",
        "set-cookie",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "date",
        "server",
        "alt-svc",
        "strict-transport-security",
    }
)
"""Headers of an upstream's answer that are about its connection, its site or our account there."""


async def pass_through(
    call: HttpCall,
    record: CallRecord,
    face: Face,
    asked: ClientRequest,
    model: RemoteModel,
    *,
    limits: Limits,
    is_accounted: bool = False,
) -> None:
    """Answers a call with what an upstream says, whatever that is.

    Args:
        model: Is asked.
        is_accounted: Somebody has to know what it uses: the vendor is asked to tell.

    Raises:
        ConverseError: It cannot be reached; or the answer broke off after it had begun.
    """
    body, name = asked.body, model.descriptor.name
    if asked.rename is not None and asked.model != name:
        body = asked.rename(body, name)
    asking = ask_for_usage(body) if is_accounted and _may_hide_usage(face, asked, model) else None
    if asked.find_path is None:
        path = model.compose_path(streaming=asked.streaming)
    else:
        path = asked.find_path(model)
    if told := call.scope["query_string"]:
        path = add_query(path, told.decode("latin-1"))
    record.way = "passthrough"
    exchange = await model.client.pass_through(
        asked.method, path, asking or body, choose_headers(face, call)
    )
    async with exchange:
        headers = {key: text for key, text in exchange.headers.items() if key not in _KEPT}
        headers["x-vibe-request-id"] = call.request_id
        record.status = exchange.status
        if exchange.status >= 400:
            headers[STAGE_HEADER] = str(Stage.PROVIDER)
        # An error is told whole, whatever was asked for.
        if asked.streaming and exchange.status < 400:
            sieve = None if asking is None else UsageFilter()
            watch = None if face.is_path else EndWatch(face.dialect.PROTOCOL)
            await _pass_on(call, record, exchange, headers, face, limits, sieve, watch)
            if watch is not None:
                _note_failure(record, watch, model)
        else:
            await _hand_over(call, record, exchange, headers, face, limits)


def _may_hide_usage(face: Face, asked: ClientRequest, model: RemoteModel) -> bool:
    """Tells whether a stream has an account only where it is asked for, and can be asked for it."""
    if not asked.streaming or face.dialect.PROTOCOL != chat_completions.PROTOCOL:
        return False
    return bool(getattr(model.client.vendor.quirks, "stream_options", False))


def add_query(path: str, told: str) -> str:
    """Returns a path with the query of a client behind its own, but for what is ours and there."""
    query = path.partition("?")[2]
    there = {name for name, _ in parse_qsl(query, keep_blank_values=True)} | _OURS
    more = [pair for pair in parse_qsl(told, keep_blank_values=True) if pair[0] not in there]
    if not more:
        return path
    return f"{path}{'&' if query else '?'}{urlencode(more)}"


def choose_headers(face: Face, call: HttpCall) -> dict[str, str]:
    """Returns the headers of a client that concern its upstream, too."""
    headers = {"content-type": call.headers.get("content-type", JSON)}
    if face.passed:
        for name, text in call.headers.items():
            if name.startswith(face.passed):
                headers[name] = text
    headers.update(read_trace(call.headers))
    return headers


_FRAMINGS: Final = {"text/event-stream": "sse", "application/x-ndjson": "ndjson"}


def _find_framing(exchange: Exchange) -> str:
    kind = exchange.headers.get("content-type", "").partition(";")[0].strip().lower()
    return _FRAMINGS.get(kind, "")


async def _hand_over(
    call: HttpCall,
    record: CallRecord,
    exchange: Exchange,
    headers: Mapping[str, str],
    face: Face,
    limits: Limits,
) -> None:
    body = await exchange.read()
    if exchange.status < 400:
        tap = UsageExtractor(face.dialect.PROTOCOL, limits)
        tap.read(body)
        record.usage = tap.find_usage()
    record.sent_bytes = len(body)
    await call.answer(exchange.status, body, headers)


async def _pass_on(
    call: HttpCall,
    record: CallRecord,
    exchange: Exchange,
    headers: Mapping[str, str],
    face: Face,
    limits: Limits,
    sieve: UsageFilter | None,
    watch: EndWatch | None,
) -> None:
    tap = UsageExtractor(face.dialect.PROTOCOL, limits, framing := _find_framing(exchange), watch)
    if framing == "ndjson":
        sieve = None
    await call.begin(exchange.status, headers)
    try:
        while data := await exchange.receive():
            tap.feed(data)
            if sieve is not None and not (data := sieve.feed(data)):
                continue
            record.sent_bytes += len(data)
            await call.send(data)
    except Exception:  # it looks cut, and has all that came
        if sieve is not None and (rest := sieve.finish()):
            await call.send(rest)
        raise
    finally:
        record.usage = tap.find_usage()
        record.is_estimated = record.usage is not None and not tap.is_whole
    await call.finish(b"" if sieve is None else sieve.finish())


def _note_failure(record: CallRecord, watch: EndWatch, model: RemoteModel) -> None:
    """Record the failure of a stream for logs and metrics; the client sees it in the stream."""
    descriptor = model.descriptor
    failure = watch.find_failure(descriptor.provider, descriptor.name)
    if failure is not None:
        failure = model.client.clean(failure)
        record.error, record.detail = failure.WORD, str(failure)
