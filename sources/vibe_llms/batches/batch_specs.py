"""Specification of a batch, as data that workers read, and the runner that executes it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

import msgspec

from vibe_llms.batches.tables import BatchState
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.instruments.parsers.parsers import ATTEMPTS, Parser
from vibe_llms.messages.codec.envelopes import decode_request, encode_request
from vibe_llms.messages.requests import Request

PRIORITY_BOUND = 1_000


class BatchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Work of a batch and its settings: a model, an engine or a function, by name.

    Attributes:
        model: Full address of the model; empty if a function is called.
        request: Template of all requests, as JSON; its last canister is the placeholder for the
            input.
        schema: Schema of the answers; ``None`` for text.
        name: Name of the schema.
        attempts: Maximum number of attempts to get an answer that fits the schema.
        concurrency: Number of inputs that each worker has in progress at once.
        retries: Number of retries of an input after a temporary error.
        cap_usd: Cap of the cost, as a decimal number of dollars; ``None`` for none.
        priority: A batch with a higher priority goes first.
        settings: Digest of the batch's settings.
        is_engine: Whether each input is a separate run in which the model may use tools.
        ensembles: Names of the ensembles that such a run may invoke.
        limits: Limits of such a run, by their names ``run_…``.
        function: Name of the function that is called with each input instead.
        genus: Genus of the model; empty for a converser.
        options: Options of the requests to a model of another genus.
    """

    model: str = ""
    request: msgspec.Raw = msgspec.Raw(b"null")
    schema: dict[str, Any] | None = None
    name: str = ""
    attempts: int = ATTEMPTS
    concurrency: int = 64
    retries: int = 0
    cap_usd: str | None = None
    priority: int = 0
    settings: str = ""
    is_engine: bool = False
    ensembles: tuple[str, ...] = ()
    limits: dict[str, int] = {}
    function: str = ""
    genus: str = ""
    options: dict[str, Any] = {}

    @property
    def template(self) -> Request:
        """Template of all requests."""
        return decode_request(bytes(self.request))

    @property
    def cap(self) -> Decimal | None:
        """Cap of the cost, in dollars."""
        return None if self.cap_usd is None else Decimal(self.cap_usd)

    def produce_parser(self) -> Parser[Any] | None:
        """Create the parser of the answers; ``None`` if they are text."""
        if self.schema is None:
            return None
        return Parser(self.schema, name=self.name, attempts=self.attempts)


def encode_spec(spec: BatchSpec) -> str:
    """Write a specification."""
    return msgspec.json.encode(spec).decode()


def decode_spec(text: str) -> BatchSpec:
    """Read a specification.

    Raises:
        RequestError: A later version of this program has written the specification.
    """
    try:
        return msgspec.json.decode(text, type=BatchSpec)
    except msgspec.DecodeError as error:
        detail = f"Cannot read the specification of a batch: {error}."
        raise RequestError(path="spec", detail=detail) from error


class _WorkName(msgspec.Struct):
    model: str = ""
    function: str = ""


def read_model(text: str) -> str:
    """Return the model or function of a specification; empty if a later version wrote it."""
    try:
        work_name = msgspec.json.decode(text, type=_WorkName)
        return work_name.model or work_name.function
    except msgspec.DecodeError:
        return ""


def write_template(request: Request) -> msgspec.Raw:
    """Write the template of all requests."""
    return msgspec.Raw(encode_request(request))


# Not tracked by Python's garbage collector: each input has one, and none is part of a cycle.
class StoredInput(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Input in its stored form.

    Attributes:
        name: Name of the input, if it has one.
        digest: Digest of the input.
        input: JSON of a text, or lines of canisters.
    """

    name: str | None
    digest: str
    input: str


@frozen(kw_only=True)
class BatchSummary:
    """State and counts of a batch on a runner.

    Attributes:
        id: Name of the batch in the database.
        state: State.
        detail: Reason for the state: an error, as JSON.
        model: Model or function of the batch.
        total: Number of its inputs; ``None`` until all are submitted.
        known: Number of inputs submitted so far.
        done: Number of inputs that succeeded or failed.
        failed: How many of those failed.
        input_tokens: Input tokens of all answers.
        output_tokens: Output tokens of all answers.
        cost: Cost in dollars of the answers with a known price.
        unpriced: Number of answers without a price.
        doubted: Maximum number of inputs that were processed again because a worker died or left
            before it had their results; both requests may be billed.
        cap: Maximum cost.
        created: Time of submission, in seconds since 1970.
        ended: Time of completion or failure.
    """

    id: str
    state: BatchState
    detail: str = ""
    model: str = ""
    total: int | None = None
    known: int = 0
    done: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal = Decimal(0)
    unpriced: int = 0
    doubted: int = 0
    cap: Decimal | None = None
    created: float = 0.0
    ended: float | None = None


class ItemOutcome(NamedTuple):
    """Outcome of an item.

    Attributes:
        line: Its line, in the format of a file journal.
        is_stored: Whether it existed before the caller began to follow.
    """

    line: bytes
    is_stored: bool


class SubmittedBatch(NamedTuple):
    """Batch that was submitted.

    Attributes:
        batch: Its id.
        before: Number of earlier results of each chunk that had any, by the chunk's number.
    """

    batch: str
    before: Mapping[int, int]


class BatchRunner(Protocol):
    """Runner of batches: workers execute them."""

    async def submit(
        self, spec: BatchSpec, inputs: AsyncIterator[StoredInput], key: str = ""
    ) -> SubmittedBatch:
        """Submit a batch, or continue one.

        Args:
            inputs: Its inputs. Existing inputs are compared, new inputs are appended.
            key: Idempotency key: the same settings and key continue one batch; without a key the
                batch is always new.

        Raises:
            RequestError: The batch has other inputs than these.
            StoreError: The database is unreachable.
        """

    async def find(self, batch: str) -> BatchSummary:
        """Return the state of a batch. Raises UnknownNameError."""

    async def resume(
        self, batch: str, *, retry_failed: bool = False, cap: Decimal | None = None
    ) -> None:
        """Resume a batch that was stopped or has ended.

        Args:
            retry_failed: Whether to retry failed inputs.
            cap: New maximum cost; by default unchanged.
        """

    def follow(
        self,
        batch: str,
        *,
        ordered: bool = False,
        waits: bool = True,
        before: Mapping[int, int] | None = None,
    ) -> AsyncGenerator[ItemOutcome]:
        """Yield results until the batch stops.

        Args:
            ordered: Whether to yield in the order of the inputs.
            waits: Whether to wait for pending results.
            before: Number of results of each chunk that count as stored; by default all existing
                ones.
        """
