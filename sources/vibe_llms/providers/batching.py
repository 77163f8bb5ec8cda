"""The batches of one model: requests of ours go in, and responses of ours come out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from vibe_llms.exceptions import ConverseError, LimitError, ProviderError, ProviderFault, Stage
from vibe_llms.foundation.clocks import Clock
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.losses import Loss, Translation
from vibe_llms.messages.requests import Request, Response
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

_AGAIN: Final = "It was not billed; have it asked again."
_FATES: Final = {
    Fate.EXPIRED: (ProviderFault.TIMEOUT, "its batch expired before it was answered."),
    Fate.CANCELLED: (ProviderFault.UNKNOWN, "its batch was cancelled before it was answered."),
}


class BatchableModel(Protocol):
    """A model whose requests can be answered later, as :class:`.remote_models.RemoteModel` is."""

    @property
    def client(self) -> VendorClient:
        """The client of the vendor."""

    @property
    def descriptor(self) -> ModelDescriptor:
        """What is known of the model."""

    def translate(self, request: Request, *, streaming: bool) -> Translation[JsonObject]:
        """Translate a request. Raises RequestError, TranslationLossError."""

    async def read_whole(self, body: bytes, request: Request, losses: Sequence[Loss]) -> Response:
        """Read a whole answer. Raises ConverseError."""


class ModelBatches:
    """Has requests to one model answered later; the vendor's own part is :class:`VendorBatches`.

    Args:
        model: Whose requests these are.
        theirs: The vendor's batches.

    Attributes:
        bounds: What one batch may have.
        clock: By which whoever waits for a batch waits.
        policy: Says how often something is asked again.
    """

    def __init__(self, model: BatchableModel, theirs: VendorBatches) -> None:
        self._model = model
        self._theirs = theirs
        context = model.client.vendor.context
        self.policy = RetryPolicy.of(context.limits)
        self.clock: Clock = context.clock
        self.bounds: BatchBounds = theirs.bounds

    def translate(self, identity: str, request: Request) -> Translation[BatchRequest]:
        """Returns a request as it goes into a batch, with what that loses.

        Raises:
            RequestError: The model cannot take it.
            TranslationLossError: Something would be lost, and the request is strict.
            LimitError: It is longer than a batch may be.
        """
        native = self._model.translate(request, streaming=False)
        encoded = self._theirs.encode(identity, native.value)
        if len(encoded.data) > self.bounds.bytes:
            raise LimitError(
                detail=f"The request has {len(encoded.data):,} bytes, and a whole batch may have "
                f"{self.bounds.bytes:,}.",
                remedy="Send less, or raise request_bytes in [limits].",
                limit="request_bytes",
                value=self.bounds.bytes,
                stage=Stage.TRANSLATE,
            )
        return Translation(encoded, native.losses)

    async def submit(self, chunk: str, requests: Sequence[BatchRequest]) -> str:
        """Submits requests, once; see :meth:`VendorBatches.submit`."""
        return await self._theirs.submit(chunk, requests)

    async def find(
        self, chunk: str, *, since: float, requests: Sequence[str], known: Collection[str]
    ) -> Sighting:
        """Looks for a batch that was submitted, perhaps; see :meth:`VendorBatches.find`."""
        return await repeat(
            lambda: self._theirs.find(chunk, since=since, requests=requests, known=known),
            self.policy,
            self.clock,
        )

    async def poll(self, identity: str) -> BatchState:
        """Asks how a batch stands. Raises ConverseError."""
        return await repeat(lambda: self._theirs.poll(identity), self.policy, self.clock)

    def read(self, state: BatchState) -> AsyncIterator[BatchResult]:
        """Reads the results of a batch that has ended, in any order. Raises ConverseError."""
        return self._theirs.read(state)

    async def cancel(self, identity: str) -> None:
        """Asks the vendor to stop. Raises ConverseError."""
        await repeat(lambda: self._theirs.cancel(identity), self.policy, self.clock)

    async def read_response(
        self, result: BatchResult, request: Request, losses: Sequence[Loss] = ()
    ) -> Response:
        """Reads the answer to a request.

        Args:
            request: That it answers, for the response.
            losses: Of its translation.

        Raises:
            ConverseError: There is none: why, says the error.
        """
        if result.fate is not Fate.ANSWERED:
            raise self.produce_error(result)
        return await self._model.read_whole(result.body, request, losses)

    def produce_error(self, result: BatchResult) -> ConverseError:
        """Says why a request was not answered."""
        model, client = self._model.descriptor, self._model.client
        if (told := _FATES.get(result.fate)) is not None:
            fault, detail = told
            return ProviderError(provider=model.provider, fault=fault, detail=detail, remedy=_AGAIN)
        return client.clean(
            client.vendor.produce_error(
                decode_problem(result.body), model.name, status=result.status, headers={}
            )
        )

    def refuse_all(self, failure: str) -> ConverseError:
        """Says that the vendor refused a whole batch.

        Args:
            failure: Why, in the vendor's words.
        """
        error = ProviderError(
            provider=self._model.descriptor.provider,
            fault=ProviderFault.INVALID_REQUEST,
            detail=f"the whole batch was refused: {failure}",
        )
        return self._model.client.clean(error)

    def miss(self, error: ProviderError) -> ConverseError:
        """Says that the vendor has the results of a batch no more.

        Args:
            error: What it said.
        """
        gone = ProviderError(
            provider=self._model.descriptor.provider,
            fault=ProviderFault.NOT_FOUND,
            status=error.status,
            detail=f"the results of its batch are gone, and may have been billed: {error.detail}",
            remedy="Have it asked again.",
        )
        return self._model.client.clean(gone)


async def receive_lines(
    client: VendorClient, path: str, body: JsonObject | None = None, *, model: str = ""
) -> AsyncGenerator[bytes]:
    """Asks for lines, and yields each as it comes, without its end.

    Args:
        body: What is asked with; without it a file is read.
        model: Who is asked, for errors.

    Raises:
        ConverseError: It did not come, or not to its end; a line is longer than ``event_bytes``.
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
    """Reads a line of results. Raises ConverseError."""
    try:
        return decode(line)
    except UNREADABLE as error:
        raise ConverseError(
            detail="A result of a batch makes no sense.", stage=Stage.DECODE
        ) from error
