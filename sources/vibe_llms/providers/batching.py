"""Batches of one model: translates requests and responses for the vendor's batches."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from vibe_llms.exceptions import ConverseError, LimitError, ProviderError, ProviderFault, Stage
from vibe_llms.foundation.clocks import Clock
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.losses import Loss, Translation
from vibe_llms.providers.batches import (
    BatchBounds,
    BatchRequest,
    BatchResult,
    BatchState,
    Fate,
    Sighting,
    VendorBatches,
)
from vibe_llms.providers.retries import RetryPolicy, repeat
from vibe_llms.providers.sources import decode_problem
from vibe_llms.wire.ndjson import NdjsonFramer

if TYPE_CHECKING:
    from vibe_llms.providers.interfaces import ModelDescriptor
    from vibe_llms.providers.vendors import VendorClient

_T = TypeVar("_T")
In = TypeVar("In")
Out = TypeVar("Out")
_In = TypeVar("_In", contravariant=True)
_Out = TypeVar("_Out", covariant=True)

_AGAIN: Final = "It was not billed; submit it again."
_FATES: Final = {
    Fate.EXPIRED: (ProviderFault.TIMEOUT, "its batch expired before it was answered."),
    Fate.CANCELLED: (ProviderFault.UNKNOWN, "its batch was cancelled before it was answered."),
}


class BatchableModel(Protocol[_In, _Out]):
    """A model of any genus whose requests can be answered later."""

    @property
    def client(self) -> VendorClient:
        """The client of the vendor."""

    @property
    def descriptor(self) -> ModelDescriptor:
        """The model's name and attributes."""

    def translate(self, request: _In, *, streaming: bool) -> Translation[JsonObject]:
        """Translate a request. Raises RequestError, TranslationLossError."""

    async def read_whole(self, body: bytes, request: _In, losses: Sequence[Loss]) -> _Out:
        """Read a whole answer. Raises ConverseError."""


class ModelBatches(Generic[In, Out]):
    """Batches for one model. A :class:`VendorBatches` exchanges them with the vendor.

    Args:
        model: The model of the requests.
        vendor_batches: The vendor's batches.

    Attributes:
        bounds: The limits of one batch.
        clock: The clock for callers that wait for a batch.
        policy: The retry policy.
    """

    def __init__(self, model: BatchableModel[In, Out], vendor_batches: VendorBatches) -> None:
        self._model = model
        self._vendor_batches = vendor_batches
        context = model.client.vendor.context
        self.policy = RetryPolicy.of(context.limits)
        self.clock: Clock = context.clock
        self.bounds: BatchBounds = vendor_batches.bounds

    def translate(self, identity: str, request: In) -> Translation[BatchRequest]:
        """Return a request in the format of a batch, with the losses.

        Raises:
            RequestError: The model does not support it.
            TranslationLossError: There are losses, and the request is strict.
            LimitError: It exceeds the size of a batch.
        """
        native = self._model.translate(request, streaming=False)
        encoded = self._vendor_batches.encode(identity, native.value)
        if len(encoded.data) > self.bounds.bytes:
            raise LimitError(
                detail=f"The request has {len(encoded.data):,} bytes; the limit of a batch is "
                f"{self.bounds.bytes:,}.",
                remedy="Shorten it, or raise request_bytes in [limits].",
                limit="request_bytes",
                value=self.bounds.bytes,
                stage=Stage.TRANSLATE,
            )
        return Translation(encoded, native.losses)

    async def submit(self, chunk: str, requests: Sequence[BatchRequest]) -> str:
        """Submit requests, once; see :meth:`VendorBatches.submit`."""
        return await self._vendor_batches.submit(chunk, requests)

    async def find(
        self, chunk: str, *, since: float, requests: Sequence[str], known: Collection[str]
    ) -> Sighting:
        """Search for a batch of unknown submission; see :meth:`VendorBatches.find`."""
        return await repeat(
            lambda: self._vendor_batches.find(chunk, since=since, requests=requests, known=known),
            self.policy,
            self.clock,
        )

    async def poll(self, identity: str) -> BatchState:
        """Return the state of a batch. Raises ConverseError."""
        return await repeat(lambda: self._vendor_batches.poll(identity), self.policy, self.clock)

    def read(self, state: BatchState) -> AsyncIterator[BatchResult]:
        """Yield the results of a batch that has ended, in any order. Raises ConverseError."""
        return self._vendor_batches.read(state)

    async def cancel(self, identity: str) -> None:
        """Ask the vendor to cancel. Raises ConverseError."""
        await repeat(lambda: self._vendor_batches.cancel(identity), self.policy, self.clock)

    async def read_response(
        self, result: BatchResult, request: In, losses: Sequence[Loss] = ()
    ) -> Out:
        """Decode the answer to a request.

        Args:
            request: The request, for the response.
            losses: Losses of its translation.

        Raises:
            ConverseError: There is no answer; the error says why.
        """
        if result.fate is not Fate.ANSWERED:
            raise self.produce_error(result)
        return await self._model.read_whole(result.body, request, losses)

    def produce_error(self, result: BatchResult) -> ConverseError:
        """Make the error of a request that was not answered."""
        model, client = self._model.descriptor, self._model.client
        if (explanation := _FATES.get(result.fate)) is not None:
            fault, detail = explanation
            return ProviderError(provider=model.provider, fault=fault, detail=detail, remedy=_AGAIN)
        return client.clean(
            client.vendor.produce_error(
                decode_problem(result.body), model.name, status=result.status, headers={}
            )
        )

    def refuse_all(self, failure: str) -> ConverseError:
        """Make the error of a batch that the vendor rejected.

        Args:
            failure: The reason that the vendor gives.
        """
        error = ProviderError(
            provider=self._model.descriptor.provider,
            fault=ProviderFault.INVALID_REQUEST,
            detail=f"the whole batch was rejected: {failure}",
        )
        return self._model.client.clean(error)

    def refuse_deleted(self, error: ProviderError) -> ConverseError:
        """Make the error of a batch whose results the vendor has deleted.

        Args:
            error: The vendor's error.
        """
        deletion = ProviderError(
            provider=self._model.descriptor.provider,
            fault=ProviderFault.NOT_FOUND,
            status=error.status,
            detail=f"its batch's results were deleted, and may have been billed: {error.detail}",
            remedy="Submit it again.",
        )
        return self._model.client.clean(deletion)


AnyBatches = ModelBatches[Any, Any]
"""Batches of a model of any genus."""


def was_not_run(error: ConverseError) -> bool:
    """Return whether an error means that a request expired or was cancelled unanswered."""
    return isinstance(error, ProviderError) and (error.fault, error.detail) in _FATES.values()


async def receive_lines(
    client: VendorClient, path: str, body: JsonObject | None = None, *, model: str = ""
) -> AsyncGenerator[bytes]:
    """Send a request, and yield the lines of the answer as they arrive, without line ends.

    Args:
        body: Body of a POST request; without one, send a GET request.
        model: The model, for errors.

    Raises:
        ConverseError: The answer is missing or incomplete, or a line exceeds ``event_bytes``.
    """
    framer = NdjsonFramer(client.vendor.context.limits)
    exchange = await client.send("GET" if body is None else "POST", path, body, model=model)
    try:
        while data := await exchange.receive():
            for frame in framer.feed(data):
                yield frame.data
        for frame in framer.finish():
            yield frame.data
    except ConverseError as error:
        raise client.clean(error)  # noqa: B904  # it is the same error
    finally:
        await exchange.close()


def decode_line(decode: Callable[[bytes], _T], line: bytes) -> _T:
    """Decode a line of results. Raises ConverseError."""
    try:
        return decode(line)
    except UNREADABLE as error:
        raise ConverseError(detail="A result of a batch is invalid.", stage=Stage.DECODE) from error
