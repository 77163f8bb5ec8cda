"""Passthrough: send a request to an upstream of the client's protocol, and its answer back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final
from urllib.parse import parse_qsl, urlencode

from vibe_llms.daemons.asgi import JSON, STAGE_HEADER, HttpCall
from vibe_llms.daemons.gateway.calls import GatewayCall
from vibe_llms.daemons.gateway.client_requests import Face
from vibe_llms.daemons.gateway.file_references import FILE_MARK, refers_to_files
from vibe_llms.daemons.gateway.stream_ends import EndWatch
from vibe_llms.daemons.gateway.token_counts import count_tokens
from vibe_llms.daemons.gateway.upstreams import can_pass_through, is_remote
from vibe_llms.daemons.gateway.usage_extraction import UsageExtractor, read_usage
from vibe_llms.daemons.gateway.usage_filter import UsageFilter, ask_for_usage
from vibe_llms.daemons.records import CallRecord
from vibe_llms.dialects import chat_completions
from vibe_llms.dialects.signatures import MARK as ENVELOPE_MARK
from vibe_llms.exceptions import Stage
from vibe_llms.models.genera import Genus
from vibe_llms.providers.remote_models import RemoteModel
from vibe_llms.wire.exchanges import Exchange

_ENVELOPE: Final = ENVELOPE_MARK.encode()

_GATEWAY_PARAMETERS: Final = frozenset({"access_token", "api-version", "key"})
"""Query parameters for the gateway itself, such as Azure's version."""

_NOT_FORWARDED: Final = frozenset(
    {
        "anthropic-organization-id",
        "openai-organization",
        "openai-project",
        "connection",
        "content-encoding",  # the body is decompressed
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
"""Response headers about the upstream's connection, its site or the gateway's account there."""


def can_pass(call: GatewayCall) -> bool:
    """Return whether the request can go to its upstream unchanged.

    It cannot if the vendor uses another protocol, or is known to refuse or misread the body.
    """
    model, face, body = call.upstream.model, call.face, call.request.body
    if face.is_path:
        return isinstance(model, RemoteModel)
    return (
        not face.is_ours  # there, the upstream would receive this gateway's model name
        and can_pass_through(model, face.dialect.PROTOCOL)
        and body.find(_ENVELOPE) < 0  # another vendor's signature, which it would refuse
        and (
            call.request.is_retrievable
            or not face.knows_quirks
            or not face.dialect.touches_quirks(body, model.known_quirks)
        )
        # Checked first for a mark, as most requests have no files.
        and (body.find(FILE_MARK) < 0 or not refers_to_files(body))
    )


async def pass_through(call: GatewayCall) -> None:
    """Send the request's bytes to the upstream, and its response to the client, errors included.

    Raises:
        ConverseError: The upstream cannot be reached, or its response broke off.
    """
    model, request, record = call.upstream.model, call.request, call.record
    assert is_remote(model)
    body, name = request.body, call.upstream.name
    if request.rename is not None and request.model != name:
        body = request.rename(body, name)
    # A budget needs the usage of each answer.
    with_usage = ask_for_usage(body) if call.reservation and _may_hide_usage(call, model) else None
    if request.find_path is None:
        path = model.compose_path(streaming=request.streaming)
    else:
        path = request.find_path(model)
    if query := call.http.scope["query_string"]:
        path = add_query(path, query.decode("latin-1"))
    record.way = "passthrough"
    exchange = await model.client.pass_through(
        request.method, path, with_usage or body, choose_headers(call.face, call.http)
    )
    try:
        headers = {
            name: text for name, text in exchange.headers.items() if name not in _NOT_FORWARDED
        }
        headers["x-vibe-request-id"] = call.http.request_id
        if not headers.get("content-type", "").lower().startswith(_INERT):
            headers["content-security-policy"] = "sandbox"
        status = record.status = exchange.status
        if status >= 400:
            headers[STAGE_HEADER] = str(Stage.PROVIDER)
        if request.streaming and status < 400:
            usage_filter = None if with_usage is None else UsageFilter()
            await _send_stream(call, model, exchange, headers, usage_filter)
        else:
            body = await exchange.read()
            if status < 400:
                protocol = call.face.dialect.PROTOCOL
                tokens = count_tokens(protocol, body)
                if tokens is None:
                    record.usage = read_usage(protocol, body)
                else:
                    record.tokens = tokens
                    record.unread_usage = partial(read_usage, protocol, body)
            record.sent_bytes = len(body)
            await call.http.answer(status, body, headers)
    finally:
        if not exchange.is_spent:
            await exchange.close()


_INERT: Final = ("application/json", "text/event-stream", "audio/", "application/octet-stream")
"""Content types without scripts. Scripts of others, such as HTML, any XML and unknown types, must
not run as if they were of the gateway's page."""


def _may_hide_usage(call: GatewayCall, model: RemoteModel) -> bool:
    """Return whether the vendor reports the usage of a stream only on request."""
    face = call.face
    if not call.request.streaming or face.dialect.PROTOCOL != chat_completions.PROTOCOL:
        return False
    if face.genus is not Genus.CONVERSER:
        return False
    quirks = model.client.vendor.quirks
    if isinstance(quirks, chat_completions.Quirks):
        return quirks.stream_options
    return face.has_prompts


def add_query(path: str, client_query: str) -> str:
    """Return a path with the client's query parameters, except the gateway's own and duplicates."""
    query = path.partition("?")[2]
    skipped = {name for name, _ in parse_qsl(query, keep_blank_values=True)} | _GATEWAY_PARAMETERS
    added = [
        (name, value)
        for name, value in parse_qsl(client_query, keep_blank_values=True)
        if name not in skipped
    ]
    if not added:
        return path
    return f"{path}{'&' if query else '?'}{urlencode(added)}"


def choose_headers(face: Face, call: HttpCall) -> Mapping[str, str]:
    """Return the client's headers to forward."""
    noted: dict[str, str] | None = call.notes.get(face.name)
    if noted is None:
        noted = {"content-type": call.headers.get("content-type", JSON)}
        if face.forwarded_headers:
            for name, value in call.headers.items():
                if name.startswith(face.forwarded_headers):
                    noted[name] = value
        call.notes[face.name] = noted
    return noted


_MEDIA: Final = ("audio/", "image/", "application/octet-stream")
"""Beginnings of content types without usage."""
_FRAMINGS: Final = {
    "application/vnd.amazon.eventstream": "aws",
    "application/x-ndjson": "ndjson",
    "text/event-stream": "sse",
}


def _find_framing(exchange: Exchange) -> str:
    media_type = exchange.headers.get("content-type", "").partition(";")[0].strip().lower()
    return _FRAMINGS.get(media_type, "")


async def _send_stream(
    call: GatewayCall,
    model: RemoteModel,
    exchange: Exchange,
    headers: Mapping[str, str],
    usage_filter: UsageFilter | None,
) -> None:
    http, record, protocol = call.http, call.record, call.face.dialect.PROTOCOL
    is_converser = call.face.genus is Genus.CONVERSER and not call.face.is_path
    watch = EndWatch(protocol) if is_converser else None
    framing = _find_framing(exchange)
    extractor = UsageExtractor(protocol, call.gateway.limits, framing, watch)
    is_media = not framing and exchange.headers.get("content-type", "").startswith(_MEDIA)
    if framing == "ndjson":  # the filter reads only server-sent events
        usage_filter = None
    await http.begin(exchange.status, headers)
    try:
        while data := await exchange.receive():
            if not is_media:
                extractor.feed(data)
            if usage_filter is not None and not (data := usage_filter.feed(data)):
                continue
            record.sent_bytes += len(data)
            await http.send(data)
    except Exception:  # send all that has arrived before the stream is cut
        if usage_filter is not None and (rest := usage_filter.finish()):
            await http.send(rest)
        raise
    finally:
        record.usage = extractor.find_usage()
        record.is_estimated = record.usage is not None and not extractor.is_whole
    await http.finish(b"" if usage_filter is None else usage_filter.finish())
    if watch is not None:
        _note_failure(record, watch, model)


def _note_failure(record: CallRecord, watch: EndWatch, model: RemoteModel) -> None:
    """Record the failure of a stream for logs and metrics; the client sees it in the stream."""
    descriptor = model.descriptor
    failure = watch.find_failure(descriptor.provider, descriptor.name)
    if failure is not None:
        failure = model.client.clean(failure)
        record.error, record.detail = failure.WORD, str(failure)
