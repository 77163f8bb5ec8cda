"""A model over the network, and the sources of its answers."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from vibe_llms.dialects.cache_hints import has_hints
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.portal import finish
from vibe_llms.messages.field_types import evolve_unchecked
from vibe_llms.messages.json_values import ensure_controls
from vibe_llms.messages.losses import Loss, Translation, refuse_losses
from vibe_llms.messages.requests import Request, Response
from vibe_llms.providers.attempts import AnsweredAttempt, Attempt
from vibe_llms.providers.complete_responses import read_whole
from vibe_llms.providers.conversing import ModelBase
from vibe_llms.providers.incremental_translation import cache_translations
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.request_templates import RequestTemplates, are_verbatim
from vibe_llms.providers.retries import RetryingSource, RetryPolicy
from vibe_llms.providers.simple_responses import SimpleResponseSource
from vibe_llms.providers.sources import WireSource
from vibe_llms.providers.streams import EventSource, close_quietly
from vibe_llms.providers.vendors import Vendor, VendorClient

if TYPE_CHECKING:
    from vibe_llms.providers.batching import ModelBatches
    from vibe_llms.providers.uploads import Renewable, Uploads


class RemoteModel(ModelBase[JsonObject]):
    """A model of a vendor."""

    def __init__(self, descriptor: ModelDescriptor, client: VendorClient) -> None:
        vendor = client.vendor
        super().__init__(descriptor, client.processors.tokenizer, vendor.context.limits)
        self.protocol = vendor.dialect.PROTOCOL  # type: ignore[misc]  # depends on the vendor
        self._client = self.client = client
        self._vendor = vendor
        self.keeps_responses = vendor.keeps_responses
        self.compacts = vendor.compacts
        self._processors = cache_translations(client.processors)
        # A vendor that overrides `nativize` may use the texts for other fields.
        is_simple = type(vendor).nativize is Vendor.nativize and are_verbatim(client.processors)
        self._write = RequestTemplates(self._translate).nativize if is_simple else self._translate
        self._read_simple = vendor.find_simple_reader(streaming=False)
        self._read_simple_stream = vendor.find_simple_reader(streaming=True)
        self._policy = RetryPolicy.of(vendor.context.limits)

    @cached_property
    def known_quirks(self) -> Any:
        """The known quirks of the vendor for this model."""
        return self._vendor.find_known_quirks(self._descriptor)

    @property
    def has_files(self) -> bool:
        """Whether large media are uploaded to the vendor once."""
        return self._client.access_uploads() is not None

    def nativize(self, request: Request, *, streaming: bool) -> Translation[JsonObject]:
        """Translate a request. Raises RequestError."""
        translation = self._write(request, streaming)
        if request.window != "vendor":
            return translation
        from vibe_llms.models.windows import measure_room  # rarely needed

        room, _ = measure_room(self._descriptor.attributes, self.complete_controls(request))
        threshold = None if room is None else room * 3 // 4
        body = self._vendor.request_compaction(translation.value, threshold)
        return Translation(body, translation.losses)

    def _translate(self, request: Request, streaming: bool) -> Translation[JsonObject]:
        if self._descriptor.attributes.control_defaults:
            controls = ensure_controls(self.complete_controls(request))
            request = evolve_unchecked(request, controls=controls)
        return self._vendor.compose_request(
            request, self._descriptor, self._processors, streaming=streaming
        )

    def check(self, request: Request) -> None:
        """Reject a request that cannot be sent, also if the key is missing; sends nothing."""
        super().check(request)
        self._client.require_key()

    def translate_without_blocking(
        self, request: Request, *, streaming: bool
    ) -> Coroutine[Any, Any, Translation[JsonObject]]:
        """Translate a request; first upload its large media, if the vendor has files.

        If the vendor caches prefixes that are sent in advance, the marked prefix is sent, too.

        Raises:
            ConverseError: The request is invalid, or an upload failed.
        """
        uploads = self._find_uploads(request)
        caches_prefix = self._vendor.caches_prefixes and has_hints(request.canisters)
        if uploads is None and not caches_prefix:  # without another coroutine
            return super().translate_without_blocking(request, streaming=streaming)
        translate = super().translate_without_blocking

        async def prepare_and_translate() -> Translation[JsonObject]:
            prepared = request if uploads is None else await uploads.prepare(request)
            if not caches_prefix:
                return await translate(prepared, streaming=streaming)
            # A hint is a loss unless the vendor caches its prefix.
            tolerant = attrs.evolve(prepared, strict=False)
            translation = await translate(tolerant, streaming=streaming)
            translation = await self._vendor.cache_prefix(
                prepared, translation, self._client, self._descriptor
            )
            if request.strict:
                refuse_losses(translation.losses)
            return translation

        return prepare_and_translate()

    def send(
        self, native: JsonObject, request: Request, *, streaming: bool
    ) -> Coroutine[Any, Any, EventSource]:
        """Return the source of the answer; see :meth:`_send`.

        If the vendor no longer has a file or a cached prefix of the request, it gets a new one,
        once.
        """
        first = self._send(native, request, streaming=streaming)
        uploads: Renewable | None = self._find_uploads(request)
        if uploads is None and "cachedContent" in native and has_hints(request.canisters):
            uploads = self._vendor.cached_prefixes
        if uploads is None:
            return first
        from vibe_llms.providers.uploads import send_renewing

        async def send(request: Request) -> EventSource:
            translation = await self.translate_without_blocking(request, streaming=streaming)
            return await self._send(translation.value, request, streaming=streaming)

        return send_renewing(uploads, request, first, send, self._descriptor.provider)

    def _find_uploads(self, request: Request) -> Uploads | None:
        """Return the client's uploads if the request has contents for them."""
        uploads = self._client.access_uploads()
        return uploads if uploads is not None and uploads.find_large(request) else None

    async def _send(self, native: JsonObject, request: Request, *, streaming: bool) -> EventSource:
        """Return a source that sends the request when it is first read, or already has the answer.

        If there is a fast path for the answer, this method sends the request: an answer without
        streaming usually arrives in one piece, and so may a short stream.
        """

        attempt = self._produce_attempt(native, request, streaming)
        source = attempt.produce_source()
        read = self._read_simple_stream if streaming else self._read_simple
        if read is not None and isinstance(source, WireSource):
            provider = self._descriptor.provider
            try:
                response = await source.receive_simple(read, self._limits.event_bytes)
            except BaseException:  # usually cancelled
                await finish(close_quietly(source, provider))
                raise
            # Longer answers take the usual path, which enforces the limit.
            if response is not None and len(response.text) <= self._limits.content_characters:
                return SimpleResponseSource(
                    response,
                    provider=provider,
                    protocol=self.protocol,
                    request_id=source.request_id,
                )
        clock = self._vendor.context.clock
        return RetryingSource(attempt.repeat, self._policy, clock=clock, source=source)

    def _produce_attempt(self, native: JsonObject, request: Request, streaming: bool) -> Attempt:
        """Make the attempt: in the background if the body requests it."""
        background = self._vendor.background
        if background is None or not (native.get("background") or request.resume):
            if request.resume and not self._vendor.resumes_responses:
                detail = (
                    f"{self._descriptor.provider} has no responses in the background to resume."
                )
                raise RequestError(path="resume", detail=detail, remedy="Leave 'resume' empty.")
            return Attempt(self._client, self._descriptor, native, request, streaming)
        from vibe_llms.providers.background import BackgroundAttempt

        return BackgroundAttempt(
            self._client, self._descriptor, native, request, streaming, background
        )

    async def read_whole(self, body: bytes, request: Request, losses: Sequence[Loss]) -> Response:
        """Decode a complete answer from another channel, such as a batch.

        Raises:
            ConverseError: It is invalid, or exceeds a limit.
        """
        source = AnsweredAttempt(self._client, self._descriptor, request, body).produce_source()
        return await read_whole(source, request, self.produce_assembler(), losses)

    def produce_batches(self) -> ModelBatches[Request, Response] | None:
        """Return the model's batches; ``None`` if the vendor has none."""
        vendor_batches = self._vendor.produce_batches(
            self._client, self.compose_path(streaming=False)
        )
        if vendor_batches is None:
            return None
        from vibe_llms.providers.batching import ModelBatches

        return ModelBatches(self, vendor_batches)

    def compose_path(self, *, streaming: bool) -> str:
        """Return the path after the base URL for requests."""
        return self._vendor.compose_path(self._descriptor, streaming=streaming)
