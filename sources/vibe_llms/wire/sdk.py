"""Transport that sends requests through the client object of an official SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import msgspec

from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    RequestError,
    Stage,
    TransportError,
)
from vibe_llms.foundation.forms import FORM_TYPE, FormFile, decode_form, is_form
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.secrets import Secret
from vibe_llms.wire import failures
from vibe_llms.wire.event_stream import CONTENT_TYPE, EventStreamRewriter
from vibe_llms.wire.exchanges import Timeouts, WireRequest
from vibe_llms.wire.http import faults
from vibe_llms.wire.size_limits import BoundedExchange, check_request, ensure_final, refuse_response

_RAW_HEADERS = {"X-Stainless-Raw-Response": "stream"}
"""Header that makes the SDK return the raw response, which is neither read nor parsed."""

_CREDENTIALS = {
    "Bedrock": "Set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
    "AWS_PROFILE to an existing profile in ~/.aws.",
    "Vertex": "Run `gcloud auth application-default login`, or set "
    "GOOGLE_APPLICATION_CREDENTIALS to an existing file.",
}
"""What to do if a client finds no credentials, by a word in the name of its class."""

_OWN_HEADERS = frozenset({"content-length", "content-type", "host", "user-agent"})
"""Headers that the SDK writes itself."""


class SdkTransport:
    """Transport that uses an asynchronous client of the anthropic or openai package.

    The client decides address, authentication, signing and rewriting of requests, which clouds
    need. The package is not imported here. The SDK's retries are off, and bodies are returned
    unparsed, except that the binary event streams of Bedrock become server-sent events.

    The host of a request's URL is ignored, and so is its path up to the version:
    ``https://host/some/v1/messages?beta=true`` is sent to ``/v1/messages?beta=true`` for an
    anthropic client and, as the base URLs of openai clients end in the version,
    ``…/v1/chat/completions`` to ``/chat/completions`` for one of openai. A path without
    ``/v1/`` is sent unchanged. Headers with a :class:`Secret` are left out, as the client has its
    own. The body must be a JSON object, which the client may rewrite, or a
    form.

    The client's timeouts apply, too, so there is none for connecting here. The SDK reads the body
    of an error before it can be limited.

    All clients were tested against servers on loopback. Those for Azure, Bedrock and Vertex were
    never tested against the clouds themselves.

    Args:
        client: An asynchronous client. The caller closes it, unless ``is_owner``.
        is_owner: Whether closing the transport closes the client.
        base_url: Base URL of the requests, if known; by default it ends before the version.
    """

    def __init__(
        self,
        client: Any,
        *,
        limits: Limits | None = None,
        timeouts: Timeouts | None = None,
        is_owner: bool = False,
        base_url: str = "",
    ) -> None:
        self._client = client
        self._is_owner = is_owner
        self._base_url = base_url
        self._limits = Limits() if limits is None else limits
        self._timeouts = Timeouts() if timeouts is None else timeouts
        packages = {cls.__module__.partition(".")[0] for cls in type(client).__mro__}
        self._version = "" if "openai" in packages else "/v1"

    async def send(self, request: WireRequest) -> SdkExchange:
        """Send a request; see :class:`Transport`."""
        check_request(request, self._limits)
        address = _describe_client(self._client)
        timeouts = self._timeouts if request.timeouts is None else request.timeouts
        facts = failures.ExchangeFacts(address, timeouts, asyncio.get_running_loop().time())
        failure: ConverseError | None = None
        try:
            async with asyncio.timeout(_choose_head_timeout(timeouts)):
                response = await self._post(request)
        except Exception as error:
            response = getattr(error, "response", None)  # of an error for an HTTP status
            if not hasattr(response, "status_code"):
                failure = _find_missing_credentials(error, self._client, address)
                failure = failure or _translate(error, facts, Stage.SEND)
        # Raised outside of the handler, so that the original error is not its context.
        if failure is not None:
            raise failure
        return await ensure_final(SdkExchange(response, facts, self._limits), address)

    async def _post(self, request: WireRequest) -> Any:
        headers = {
            name: value
            for name, value in request.headers.items()
            if not isinstance(value, Secret) and name.lower() not in _OWN_HEADERS
        }
        options: dict[str, Any] = {
            "headers": headers | _RAW_HEADERS,
            "max_retries": 0,
            "follow_redirects": False,
        }
        path = request.url.removeprefix(self._base_url)
        if path == request.url:
            path = _cut_path(request.url, self._version)
        if request.method.upper() == "GET":
            answer = await self._client.get(path, cast_to=object, options=options)
        else:
            content_type = str(request.headers.get("content-type", ""))
            body: dict[str, Any] | None
            files: list[Any] | None
            if is_form(content_type):  # only openai's clients send forms
                options["headers"] = {**options["headers"], "Content-Type": FORM_TYPE}
                body, files = _read_form(request.body, content_type)
            else:
                body, files = _read_object(request.body), None
            answer = await self._client.post(
                path, cast_to=object, body=body, files=files, options=options
            )
        return answer.http_response

    async def close(self) -> None:
        """Close the client only if it is this transport's own."""
        if self._is_owner:
            await self._client.close()


class SdkExchange(BoundedExchange):
    """A response that an SDK's client receives; see :class:`Exchange`."""

    def __init__(self, response: Any, facts: failures.ExchangeFacts, limits: Limits) -> None:
        self._response = response
        self._facts = facts
        self._chunks: AsyncIterator[bytes] = response.aiter_bytes()
        self._rewriter: EventStreamRewriter | None = None
        self._is_closed = False
        headers = {name.lower(): value for name, value in response.headers.items()}
        if headers.get("content-type", "").startswith(CONTENT_TYPE):
            self._rewriter = EventStreamRewriter(limits)
            headers["content-type"] = "text/event-stream"
        super().__init__(response.status_code, headers, limits.response_bytes)

    async def receive(self) -> bytes:
        """Return the next bytes of the body; see :class:`Exchange`."""
        while True:
            data = await self._receive_raw()
            if not data:
                if self._rewriter is not None and self._rewriter.has_pending:
                    raise TransportError(
                        detail=f"The answer of {self._facts.address} broke off within an event.",
                        address=self._facts.address,
                        stage=Stage.FRAME,
                    )
                return b""
            if self._rewriter is None:
                return data
            if rewritten := self._rewriter.feed(data):
                return rewritten

    async def _receive_raw(self) -> bytes:
        failure: ConverseError | None = None
        data = b""
        try:
            async with asyncio.timeout(self._find_chunk_timeout()):
                while not data and not self._is_closed:
                    data = await anext(self._chunks)
        except StopAsyncIteration:
            return b""
        except asyncio.CancelledError:
            await self.close()
            raise
        except Exception as error:
            failure = _translate(error, self._facts, Stage.FRAME)
        if self._is_closed:
            failure = failures.produce_closed_error(self._facts.address)
        if self._exceeds(data):
            failure = refuse_response(self._limit)
        if failure is not None:
            await self.close()
            raise failure
        return data

    def _find_chunk_timeout(self) -> float | None:
        """Return the timeout in seconds for the next bytes."""
        timeouts = self._facts.timeouts
        if timeouts.total_seconds is None:
            return timeouts.between_chunks_seconds
        remaining = self._facts.started + timeouts.total_seconds - asyncio.get_running_loop().time()
        return min(max(remaining, 0), timeouts.between_chunks_seconds or remaining)

    async def close(self) -> None:
        """Close the response; see :class:`Exchange`."""
        if not self._is_closed:
            self._is_closed = True
            await self._response.aclose()


def _describe_client(client: Any) -> str:
    parts = urlsplit(str(getattr(client, "base_url", "")))
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else "the SDK"


def _choose_head_timeout(timeouts: Timeouts) -> float | None:
    """Return the timeout in seconds for the headers; the client has its own for connecting."""
    timeouts_until_headers = (timeouts.first_byte_seconds, timeouts.total_seconds)
    return min((seconds for seconds in timeouts_until_headers if seconds is not None), default=None)


def _cut_path(url: str, version: str) -> str:
    """Return the part of a URL that a client appends to its base URL; see :class:`SdkTransport`."""
    parts = urlsplit(url)
    _, found, rest = parts.path.partition("/v1/")
    path = f"{version}/{rest}" if found else parts.path
    return f"{path}?{parts.query}" if parts.query else path


def _read_form(body: bytes, content_type: str) -> tuple[dict[str, Any], list[Any]]:
    """Return the model that a form names, which the client for Azure needs, and its other fields.

    Fields without a file name are sent as such.

    Raises:
        RequestError: The form is invalid.
    """
    try:
        fields = decode_form(body, content_type)
    except ValueError as error:
        raise RequestError(
            detail=f"The form is invalid: {error}.",
            remedy="Use the direct transport.",
            path="body",
            stage=Stage.SEND,
        ) from None
    models = {name: value for name, value in fields if name == "model"}
    files: list[tuple[str, Any]] = []
    for name, value in fields:
        if name in models:
            continue
        if isinstance(value, FormFile):
            files.append((name, (value.name, value.data, value.media_type)))
        else:
            files.append((name, (None, value.encode())))
    return models, files


def _read_object(body: bytes) -> dict[str, Any] | None:
    if not body:
        return None
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise RequestError(
            detail="The body of the request is not a JSON object, which an SDK's client requires.",
            remedy="Use the direct transport.",
            path="body",
            stage=Stage.SEND,
        ) from error


def _find_missing_credentials(
    error: Exception, client: Any, address: str
) -> ConfigurationError | None:
    """Return the error of missing credentials, if a client failed before sending.

    Its message is not repeated, as it may show a part of a key.
    """
    names = {cls.__name__ for cls in type(error).__mro__}
    # The client for Bedrock raises a bare RuntimeError if there are no credentials.
    if not names & {"BotoCoreError", "GoogleAuthError"} and type(error) is not RuntimeError:
        return None
    kinds = [cls.__name__ for cls in type(client).__mro__]
    remedies = [
        advice for word, advice in _CREDENTIALS.items() if any(word in each for each in kinds)
    ]
    return ConfigurationError(
        detail=f"There are no credentials for {address}, or they are incomplete "
        f"({type(error).__name__}).",
        remedy=(remedies or ["Complete the environment variables that its client reads."])[0],
    )


def _translate(error: Exception, facts: failures.ExchangeFacts, stage: Stage) -> ConverseError:
    """Translate an error of an SDK or its HTTP library.

    The errors are recognized by the names of their classes, without importing the libraries.
    """
    names = {cls.__name__ for each in failures.walk_chain(error) for cls in type(each).__mro__}
    if isinstance(error, TimeoutError) or names & {"APITimeoutError", "TimeoutException"}:
        if names & {"ConnectTimeout", "PoolTimeout"}:
            return failures.produce_timeout_error(facts, "connect")
        return failures.translate(TimeoutError(), facts, stage)
    if names & {"APIConnectionError", "TransportError"}:
        equivalent = faults.Unreachable() if "ConnectError" in names else ConnectionError()
        equivalent.__cause__ = error
        return failures.translate(equivalent, facts, stage)
    return failures.translate(error, facts, stage)
