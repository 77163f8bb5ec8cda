"""Files and batches, in the protocols of OpenAI and of Anthropic; files also in Gemini's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from vibe_llms.daemons.asgi import JSON, HttpCall
from vibe_llms.daemons.gateway.batches.anthropic_endpoints import MessageBatchEndpoints
from vibe_llms.daemons.gateway.batches.file_endpoints import FileEndpoints
from vibe_llms.daemons.gateway.batches.gemini_file_endpoints import GeminiFileEndpoints
from vibe_llms.daemons.gateway.batches.openai_endpoints import BatchEndpoints
from vibe_llms.daemons.gateway.batches.running import GatewayBatchRunner
from vibe_llms.daemons.gateway.faces import chat_completions, generate_content, messages
from vibe_llms.daemons.gateway.faces.models import choose_writer, is_gemini
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.routes import Handler, Route
from vibe_llms.foundation.forms import FORM_TYPE

_FILE = "/v1/files/{id}"
_UPLOAD_TYPES = (JSON, "multipart/related", "application/octet-stream", "")
"""Types of uploads of Gemini's clients; pieces may have none."""

_BATCH = "/v1/batches/{id}"
_MESSAGE_BATCHES = "/v1/messages/batches"
_MESSAGE_BATCH = f"{_MESSAGE_BATCHES}/{{id}}"


_PREFIXES = (
    *("/v1/files", "/v1beta/files", "/upload/v1/files", "/upload/v1beta/files"),
    *("/v1/batches", _MESSAGE_BATCHES),
)


def find_prefix(path: str) -> str:
    """Return the beginning of the paths of files or batches that a path belongs to; else empty."""
    return next((each for each in _PREFIXES if path == each or path.startswith(f"{each}/")), "")


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Return the routes; none for a gateway without storage."""
    runner = gateway.batches
    if runner is None:
        return ()
    produce = partial(Route, write_error=chat_completions.FACE.write_error)
    batches = BatchEndpoints(gateway, runner)
    message_batches = MessageBatchEndpoints(gateway, runner)
    openai = (
        ("POST", "/v1/batches", batches.create),
        ("GET", "/v1/batches", batches.survey),
        ("GET", _BATCH, batches.retrieve),
        ("POST", f"{_BATCH}/cancel", batches.cancel),
    )
    anthropic = (
        ("POST", _MESSAGE_BATCHES, message_batches.create),
        ("GET", _MESSAGE_BATCHES, message_batches.survey),
        ("GET", _MESSAGE_BATCH, message_batches.retrieve),
        ("DELETE", _MESSAGE_BATCH, message_batches.delete),
        ("POST", f"{_MESSAGE_BATCH}/cancel", message_batches.cancel),
        ("GET", f"{_MESSAGE_BATCH}/results", message_batches.read_results),
    )
    produce_message = partial(Route, write_error=messages.FACE.write_error)
    routes = [*_produce_file_routes(gateway, runner)]
    routes += [produce(method=each[0], pattern=each[1], handler=each[2]) for each in openai]
    routes += [
        produce_message(method=each[0], pattern=each[1], handler=each[2]) for each in anthropic
    ]
    return tuple(routes)


def _produce_file_routes(gateway: Gateway, runner: GatewayBatchRunner) -> Iterator[Route]:
    files = FileEndpoints(gateway, runner)
    gemini = {
        version: GeminiFileEndpoints(gateway, runner, version) for version in ("v1", "v1beta")
    }
    stable = gemini["v1"]  # its paths are those of the other protocols, too
    produce = partial(
        Route, write_error=chat_completions.FACE.write_error, choose_writer=choose_writer
    )
    yield produce(method="POST", pattern="/v1/files", handler=files.create, body_types=(FORM_TYPE,))
    for method, pattern, handler, handler_for_gemini in (
        ("GET", "/v1/files", files.survey, stable.survey),
        ("GET", _FILE, files.retrieve, stable.retrieve),
        ("DELETE", _FILE, files.delete, stable.delete),
    ):
        choosing = partial(_handle_file, handler, handler_for_gemini)
        yield produce(method=method, pattern=pattern, handler=choosing)
    yield produce(method="GET", pattern=f"{_FILE}/content", handler=files.read)
    produce_gemini = partial(Route, write_error=generate_content.FACE.write_error)
    for version, endpoints in gemini.items():
        yield produce_gemini(
            method="POST",
            pattern=f"/upload/{version}/files",
            handler=endpoints.create,
            body_types=_UPLOAD_TYPES,
        )
    beta = gemini["v1beta"]
    yield produce_gemini(method="GET", pattern="/v1beta/files", handler=beta.survey)
    yield produce_gemini(method="GET", pattern="/v1beta/files/{id}", handler=beta.retrieve)
    yield produce_gemini(method="DELETE", pattern="/v1beta/files/{id}", handler=beta.delete)


async def _handle_file(
    handler: Handler, handler_for_gemini: Handler, call: HttpCall, record: CallRecord
) -> None:
    await (handler_for_gemini if is_gemini(call) else handler)(call, record)
