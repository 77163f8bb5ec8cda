"""Answers to the requests of a batch: received from the gateway, and written into result files."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from vibe_llms.daemons.gateway.batches.storage import BatchedAnswer
from vibe_llms.daemons.gateway.loss_headers import LOSSES_HEADER
from vibe_llms.daemons.server.asgi_types import Message
from vibe_llms.foundation.json_errors import UNREADABLE

_LOSSES_HEADER: Final = LOSSES_HEADER.encode()


class AnswerReceiver:
    """Collects the answer to one request."""

    def __init__(self, custom_id: str) -> None:
        self.status = 0
        self.retry_seconds = 0.0
        self._losses: tuple[str, ...] = ()
        self._custom_id = custom_id
        self._request_id = ""
        self._pieces: list[bytes] = []

    async def receive(self, message: Message) -> None:
        """Receive an ASGI message of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = {name.lower(): value for name, value in message["headers"]}
            self._request_id = headers.get(b"x-vibe-request-id", b"").decode()
            self._losses = tuple(msgspec.json.decode(headers.get(_LOSSES_HEADER, b"[]")))
            seconds = headers.get(b"retry-after", b"")
            self.retry_seconds = float(seconds) if seconds.isdigit() else 0.0
        else:
            self._pieces.append(message.get("body", b""))

    def produce_result(self) -> BatchedAnswer:
        """Return the result, its body on one line; a body that is not JSON becomes a text."""
        body = b"".join(self._pieces)
        try:
            msgspec.json.decode(body)
            body = msgspec.json.format(body, indent=-1)
        except UNREADABLE:
            body = msgspec.json.encode(body.decode("utf-8", "replace"))
        return BatchedAnswer(
            custom_id=self._custom_id,
            status=self.status or 500,
            request_id=self._request_id,
            losses=self._losses,
            body=msgspec.Raw(body),
        )


def describe_losses(result: BatchedAnswer) -> dict[str, Any]:
    """Return the additional field with the losses of a result; none without losses."""
    return {"vibe_losses": result.losses} if result.losses else {}


def encode_lines(results: list[BatchedAnswer]) -> bytes:
    """Return the lines of a file of results, in OpenAI's form."""
    lines = [
        {
            "id": f"batch_req_{result.request_id.removeprefix('req_')}",
            "custom_id": result.custom_id,
            "response": {
                "status_code": result.status,
                "request_id": result.request_id,
                "body": result.body,
            },
            "error": None,
            **describe_losses(result),
        }
        for result in results
    ]
    return msgspec.json.Encoder().encode_lines(lines)
