"""Source of the inputs that a caller supplies."""

from __future__ import annotations

from typing import Any, Protocol

from vibe_llms.batches.direct_backend import ProcessInput
from vibe_llms.batches.file_journals import FileJournal
from vibe_llms.batches.item_lines import decode_item, digest
from vibe_llms.batches.items import BatchInput, BatchItem, DueInput
from vibe_llms.batches.journals import DoneItem
from vibe_llms.exceptions import ConverseError, RequestError
from vibe_llms.instruments.estimates import write_input
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.providers.batches import BatchResult
from vibe_llms.providers.batching import AnyBatches


class BatchWork(Protocol):
    """Work applied to each input: a model, an engine or a function."""

    async def prepare(self) -> ProcessInput:
        """Return the function that processes one input. Raises ConverseError."""

    def describe(self) -> Any:
        """Return a description that identifies the work."""

    async def identify(self, value: Any) -> Any:
        """Return the identity of an input."""

    async def compose_input(self, value: Any) -> Any:
        """Return the composed input. Raises ConverseError."""

    async def restore(self, item: BatchItem[Any]) -> BatchItem[Any]:
        """Return an item of a journal with its value restored."""


class VendorWork(BatchWork, Protocol):
    """Work whose requests a vendor can answer in its own batches.

    Attributes:
        has_answers: Whether answers have tokens of their own, which are billed.
    """

    has_answers: bool

    async def access_model(self) -> Any:
        """Return the model."""

    async def compose(self, value: Any) -> Any:
        """Return the request of one input. Raises ConverseError."""

    def estimate_tokens(self, request: Any, attributes: ModelAttributes) -> int:
        """Return the approximate input tokens of a request."""

    async def read_result(
        self, batches: AnyBatches, result: BatchResult, name: str | None
    ) -> BatchItem[Any]:
        """Return the item of a vendor's result.

        Args:
            name: Name of the input, if it has one.

        Raises:
            ConverseError: The request has no answer, or the answer is invalid.
        """


class UniqueNames:
    """Names of the inputs of a run."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def add(self, place: int, name: str) -> None:
        """Add the name of an input.

        Raises:
            RequestError: Another input has it.
        """
        if name in self._names:
            raise RequestError(
                path=f"inputs[{place}].id",
                detail=f"Two inputs of the batch have the id {name!r}.",
                remedy="Give each an id of its own, or none.",
            )
        self._names.add(name)


class InputSource:
    """Inputs from the caller; those that the journal has are not processed again.

    Args:
        work: Work applied to each input.
        journal: Results of earlier runs; ``None`` for none.
        retries_failed: Whether to retry failures of the journal.
    """

    keeps_runs = False

    def __init__(
        self, work: BatchWork, journal: FileJournal | None, *, retries_failed: bool
    ) -> None:
        self._work = work
        self._journal = journal
        self._retries_failed = retries_failed
        self._names = UniqueNames()

    @property
    def stored(self) -> int:
        """Number of inputs that have a result from earlier runs."""
        return 0 if self._journal is None else self._journal.stored

    async def admit(self, place: int, raw_input: Any) -> DueInput | DoneItem:
        """Admit an input; return the journal's entry if it must not be processed again."""
        name, value = (
            (raw_input.id, raw_input.value)
            if isinstance(raw_input, BatchInput)
            else (None, raw_input)
        )
        if name is not None:
            self._names.add(place, name)
        if self._journal is None:
            return DueInput(place, name, value)
        input_digest = digest(await self._work.identify(value))
        entry = self._journal.find(place if name is None else name, input_digest)
        if entry is not None and not (entry.has_failed and self._retries_failed):
            return entry
        return DueInput(place, name, value, input_digest, entry is not None)

    async def restore(self, entry: DoneItem) -> BatchItem[Any]:
        """Return the item of a journal entry."""
        assert self._journal is not None
        item = decode_item(self._journal.read(entry))
        return item if item.error is not None else await self._work.restore(item)

    async def encode_input(self, due: DueInput) -> str:
        """Return an input in the form in which it would be stored."""
        if isinstance(due.value, Request):
            raise RequestError(
                path="inputs",
                detail="An input of a batch with a cap must not be a whole request.",
                remedy="Pass the question as the input, and the settings to the batch.",
            )
        try:
            return write_input(await self._work.compose_input(due.value))
        except ConverseError:  # it will not be processed; the error has the reason
            return ""

    async def release(self, due: DueInput) -> None:
        """Do nothing."""
