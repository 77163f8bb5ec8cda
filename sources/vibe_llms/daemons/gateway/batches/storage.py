"""Batches on disk: their state, their requests, and a journal of the results."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from vibe_llms.daemons.gateway.batches.files import is_identity
from vibe_llms.exceptions import UnknownNameError
from vibe_llms.foundation.files import open_handle, read_regular, replace_file, write_all
from vibe_llms.foundation.json_errors import UNREADABLE

_Status: TypeAlias = Literal["in_progress", "cancelling", "completed", "cancelled", "expired"]
ENDS: Final = ("completed", "cancelled", "expired")
"""Statuses of a batch that has ended."""

DAY_SECONDS: Final = 86_400
"""Age at which a batch expires; both vendors' protocols have this."""


class BatchedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a batch.

    Attributes:
        custom_id: The client's id; unique in the batch.
        path: Path of the gateway.
        body: The request, as JSON.
    """

    custom_id: str
    path: str
    body: msgspec.Raw

    def find_model(self) -> str:
        """Return the model; empty if no vendor's batch can contain the request.

        Only the gateway has the state to which some requests refer.
        """
        try:
            head = _HEAD.decode(self.body)
        except UNREADABLE:
            return ""
        return (
            "" if head.previous_response_id or head.conversation or head.background else head.model
        )


class _Head(msgspec.Struct):
    model: str = ""
    previous_response_id: Any = None
    conversation: Any = None
    background: Any = None


_HEAD: Final = msgspec.json.Decoder(_Head)


class BatchedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request of a batch.

    Attributes:
        custom_id: The client's id of the request.
        status: HTTP status of the answer.
        request_id: The gateway's id of the request.
        losses: Losses of the translation.
        body: The answer, as JSON.
    """

    custom_id: str
    status: int
    request_id: str = ""
    losses: tuple[str, ...] = ()
    body: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def is_success(self) -> bool:
        """Whether the request succeeded."""
        return 200 <= self.status < 300


class VendorRoad(msgspec.Struct, frozen=True, kw_only=True):
    """A model whose requests are submitted to the batch API of its vendor.

    Attributes:
        model: The model, as the client names it.
        address: The target, as ``provider:name``.
        strict: Whether the target's table refuses losses.
        is_reserved: Whether the cost of the requests was reserved in the client's budget.
        is_closed: Whether the remaining requests go to the gateway itself, as the client's budget
            is too small for all at once, or the vendor refused them.
    """

    model: str
    address: str
    strict: bool = False
    is_reserved: bool = False
    is_closed: bool = False


class GatewayBatch(msgspec.Struct, frozen=True, kw_only=True):
    """State of a batch.

    Attributes:
        id: Such as ``batch_0123456789abcdef01234567``.
        path: Path of all its requests.
        subject: Name of the client; empty without an authorizer.
        status: Its status.
        total: Number of requests.
        completed, failed: Number of results so far, by success.
        created: Seconds since 1970, as the other moments.
        cancelling: Moment of the request to cancel it.
        ended: Moment of its end.
        input_file, output_file, error_file: Ids of files of OpenAI's clients.
        metadata: The client's.
    """

    id: str
    path: str
    subject: str
    status: _Status = "in_progress"
    total: int
    completed: int = 0
    failed: int = 0
    created: int
    cancelling: int | None = None
    ended: int | None = None
    input_file: str | None = None
    output_file: str | None = None
    error_file: str | None = None
    metadata: dict[str, Any] | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.status in ENDS

    @property
    def expires(self) -> int:
        """Moment at which it expires."""
        return self.created + DAY_SECONDS


class GatewayBatchStorage:
    """Batches in a folder, a folder each. Its calls block.

    Args:
        folder: Created when the first batch is added.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, batch: GatewayBatch, items: Iterable[BatchedRequest]) -> None:
        """Store a batch durably, its state last."""
        place = self._folder / batch.id
        place.mkdir(parents=True, mode=0o700)
        lines = msgspec.json.Encoder().encode_lines(list(items))
        replace_file(place / "requests.jsonl", lines, mode=0o600)
        # Now, so that appends need not synchronize the folder.
        replace_file(self.locate_results(batch), b"", mode=0o600)
        self.write(batch)

    def write(self, batch: GatewayBatch) -> None:
        """Replace the state of a batch."""
        path = self._folder / batch.id / "batch.json"
        replace_file(path, msgspec.json.encode(batch), mode=0o600)

    def mark_cancelling(self, batch: GatewayBatch) -> None:
        """Ask the process that runs the batch to end it.

        The mark is a file of its own, so that a process which writes the counts cannot lose it.
        """
        replace_file(self._locate_mark(batch), b"", mode=0o600)

    def find(self, identity: str, subject: str, prefix: str) -> GatewayBatch:
        """Return a client's batch. Raises UnknownNameError.

        Args:
            prefix: Beginning of the ids of the client's protocol.
        """
        batch = self._read(identity) if identity.startswith(prefix) else None
        if batch is None or batch.subject != subject:
            raise UnknownNameError(kind="batch", name=identity, known=())
        return batch

    def survey(self, subject: str, prefix: str) -> list[GatewayBatch]:
        """Return a client's batches of a protocol, the oldest first."""
        paths = self._folder.glob(f"{prefix}*") if self._folder.is_dir() else ()
        batches = filter(None, (self._read(path.name) for path in paths))
        subject_batches = (batch for batch in batches if batch.subject == subject)
        return sorted(subject_batches, key=lambda batch: (batch.created, batch.id))

    def delete(self, batch: GatewayBatch) -> None:
        """Delete a batch that has ended."""
        place = self._folder / batch.id
        (place / "batch.json").unlink(missing_ok=True)  # first: without it, the rest is ignored
        shutil.rmtree(place, ignore_errors=True)

    def sweep(self, before: float) -> None:
        """Delete the batches of all clients that ended or expired before a moment."""
        for path in list(self._folder.glob("*")):
            batch = self._read(path.name)
            if batch is not None:
                if (batch.ended or batch.expires) < before:
                    self.delete(batch)
            elif is_identity(path.name):  # damaged, or its creator was killed
                with suppress(FileNotFoundError):
                    if path.stat().st_mtime < before:
                        shutil.rmtree(path, ignore_errors=True)

    def read_items(self, batch: GatewayBatch) -> Iterator[BatchedRequest]:
        """Yield the requests of a batch, in their order; damaged ones are left out."""
        decoder = msgspec.json.Decoder(BatchedRequest)
        for line in read_regular(str(self._folder / batch.id / "requests.jsonl")).splitlines():
            try:
                item = decoder.decode(line)
            except UNREADABLE:
                continue
            yield item

    def read_results(self, batch: GatewayBatch) -> list[BatchedAnswer]:
        """Return the results so far; a line that was cut by a crash is left out."""
        try:
            data = read_regular(str(self.locate_results(batch)))
        except FileNotFoundError:
            return []
        results: dict[str, BatchedAnswer] = {}
        for line in data.splitlines():
            try:
                result = msgspec.json.decode(line, type=BatchedAnswer)
            except UNREADABLE:
                continue
            results.setdefault(result.custom_id, result)
        return list(results.values())

    def append_results(self, batch: GatewayBatch, results: Sequence[BatchedAnswer]) -> None:
        """Add results durably."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with open_handle(self.locate_results(batch), flags, 0o600) as file:
            # After a crash the last line may lack its end.
            write_all(file.fileno(), b"\n" + msgspec.json.Encoder().encode_lines(results))
            os.fsync(file.fileno())

    def read_roads(self, batch: GatewayBatch) -> list[VendorRoad] | None:
        """Return the roads to vendors; ``None`` if they were not chosen yet."""
        try:
            data = read_regular(str(self._folder / batch.id / "roads.json"))
        except FileNotFoundError:
            return None
        return msgspec.json.decode(data, type=list[VendorRoad])

    def write_roads(self, batch: GatewayBatch, roads: Sequence[VendorRoad]) -> None:
        """Store the roads to vendors durably."""
        path = self._folder / batch.id / "roads.json"
        replace_file(path, msgspec.json.encode(roads), mode=0o600)

    def remove_vendor_journals(self, batch: GatewayBatch) -> None:
        """Delete the journals of vendors' answers, once all of these are results."""
        for path in (self._folder / batch.id).glob("vendor-*.jsonl"):
            path.unlink(missing_ok=True)

    def locate_vendor_journal(self, batch: GatewayBatch, number: int) -> Path:
        """Return the path of the journal of a vendor's answers; its submissions are beside it."""
        return self._folder / batch.id / f"vendor-{number}.jsonl"

    def locate_results(self, batch: GatewayBatch) -> Path:
        """Return the path of the journal of results."""
        return self._folder / batch.id / "results.jsonl"

    def locate_lock(self, batch: GatewayBatch) -> str:
        """Return the path of the lock that the process which runs the batch holds."""
        return str(self._folder / batch.id / "lock")

    def _read(self, identity: str) -> GatewayBatch | None:
        if not is_identity(identity):  # a client's text, which must not become a path
            return None
        try:
            data = read_regular(str(self._folder / identity / "batch.json"))
            batch = msgspec.json.decode(data, type=GatewayBatch)
        except (FileNotFoundError, *UNREADABLE):
            return None
        if batch.is_over:
            return batch
        with suppress(FileNotFoundError):
            moment = int(self._locate_mark(batch).stat().st_mtime)
            return replace(batch, status="cancelling", cancelling=moment)
        return batch

    def _locate_mark(self, batch: GatewayBatch) -> Path:
        return self._folder / batch.id / "cancelling"
