"""Files and batches, in the protocols of OpenAI and of Anthropic."""

from __future__ import annotations

from functools import partial

from vibe_llms.daemons.gateway.batches.anthropic_endpoints import MessageBatchEndpoints
from vibe_llms.daemons.gateway.batches.file_endpoints import FileEndpoints
from vibe_llms.daemons.gateway.batches.openai_endpoints import BatchEndpoints
from vibe_llms.daemons.gateway.faces import chat_completions, messages
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.routes import Route
from vibe_llms.foundation.forms import FORM_TYPE

_FILE = "/v1/files/{id}"
_BATCH = "/v1/batches/{id}"
_MESSAGE_BATCHES = "/v1/messages/batches"
_MESSAGE_BATCH = f"{_MESSAGE_BATCHES}/{{id}}"


_PREFIXES = ("/v1/files", "/v1/batches", _MESSAGE_BATCHES)


def find_prefix(path: str) -> str:
    """Return the beginning of the paths of files or batches that a path belongs to; else empty."""
    return next((each for each in _PREFIXES if path == each or path.startswith(f"{each}/")), "")


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Return the routes; none for a gateway without storage."""
    runner = gateway.batches
    if runner is None:
        return ()
    produce = partial(Route, write_error=chat_completions.FACE.write_error)
    files = FileEndpoints(gateway, runner)
    batches = BatchEndpoints(gateway, runner)
    message_batches = MessageBatchEndpoints(gateway, runner)
    upload = produce(
        method="POST", pattern="/v1/files", handler=files.create, body_types=(FORM_TYPE,)
    )
    openai = (
        ("GET", "/v1/files", files.survey),
        ("GET", _FILE, files.retrieve),
        ("DELETE", _FILE, files.delete),
        ("GET", f"{_FILE}/content", files.read),
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
    routes = [upload]
    routes += [produce(method=each[0], pattern=each[1], handler=each[2]) for each in openai]
    routes += [
        produce_message(method=each[0], pattern=each[1], handler=each[2]) for each in anthropic
    ]
    return tuple(routes)
