"""Order of a batch, as data that workers read, and the runner that executes it."""

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


class BatchOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Work of a batch and its settings: a model, an engine or a function, by name.

    Attributes:
        model: Its whole address; empty where a function is called.
        request: The pattern of all requests, as JSON; its last canister stands for the input.
        schema: Schema of the answers; ``None`` for text.
        name: Name of the schema.
        attempts: How many answers are asked for until one fits the schema.
        concurrency: How many inputs each worker asks at once.
        retries: How often an input is asked again whose error may pass.
        cap_usd: Cap of the cost, as a decimal number of dollars; ``None`` for none.
        priority: A batch with a higher priority goes first.
        settings: Digest of the batch's settings.
        is_engine: Whether each input is a run of its own, in which the model may act.
        ensembles: What it may invoke then, by the names of ensembles.
        limits: What bounds such a run, by the names ``run_…``.
        function: The name of the function that is called with each input instead.
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

    @property
    def pattern(self) -> Request:
        """The pattern of all requests."""
        return decode_request(bytes(self.request))

    @property
    def cap(self) -> Decimal | None:
        """Cap of the cost, in dollars."""
        return None if self.cap_usd is None else Decimal(self.cap_usd)

    def produce_parser(self) -> Parser[Any] | None:
        """Make the parser of the answers; ``None`` where they are text."""
        if self.schema is None:
            return None
        return Parser(self.schema, name=self.name, attempts=self.attempts)


def encode_order(order: BatchOrder) -> str:
    """Write an order."""
    return msgspec.json.encode(order).decode()


def decode_order(text: str) -> BatchOrder:
    """Read an order.

    Raises:
        RequestError: A later version of this program has written it.
    """
    try:
        return msgspec.json.decode(text, type=BatchOrder)
    except msgspec.DecodeError as error:
        detail = f"Cannot read the order of a batch: {error}."
        raise RequestError(path="order", detail=detail) from error


class _Named(msgspec.Struct):
    model: str = ""
    function: str = ""


def read_model(text: str) -> str:
    """Read whom an order asks, a model or a function; empty where a later version has written
    what does not read."""
    try:
        named = msgspec.json.decode(text, type=_Named)
        return named.model or named.function
    except msgspec.DecodeError:
        return ""


def write_pattern(request: Request) -> msgspec.Raw:
    """Write the pattern of all requests."""
    return msgspec.Raw(encode_request(request))


# Not followed by Python's collector: there is one for each input, and none is part of a cycle.
class KeptInput(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Input as it is stored.

    Attributes:
        name: Name of the input, where it has one.
        digest: Of the input.
        input: JSON of a text, or lines of canisters.
    """

    name: str | None
    digest: str
    input: str


@frozen(kw_only=True)
class BatchSummary:
    """State and counts of a batch on a runner.

    Attributes:
        id: Its name in the database.
        state: State.
        detail: Reason of the state: an error, as JSON.
        model: The model or the function that it asks.
        total: How many inputs it has; ``None`` until all are there.
        known: How many are there.
        done: How many were done or failed.
        failed: How many of those failed.
        input_tokens: Input tokens of all answers.
        output_tokens: Output tokens of all answers.
        cost: In dollars, as far as prices are known.
        unpriced: How many answers have no price.
        doubted: How many inputs at most were asked again, as a worker had died or left while it
            asked them: both may be billed.
        cap: What it may cost.
        created: When it was asked for, in seconds since 1970.
        ended: When it was done or failed.
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
    """What came of an item.

    Attributes:
        line: Its line, as in a file journal.
        is_stored: Whether it was there before the caller followed.
    """

    line: bytes
    is_stored: bool


class Submitted(NamedTuple):
    """Batch that was submitted.

    Attributes:
        batch: Its id.
        before: How many results each of its chunks had before that, by number, where it had any.
    """

    batch: str
    before: Mapping[int, int]


class BatchRunner(Protocol):
    """Runner of batches: workers execute them."""

    async def submit(
        self, order: BatchOrder, asked: AsyncIterator[KeptInput], key: str = ""
    ) -> Submitted:
        """Submit a batch, or continue one.

        Args:
            asked: Its inputs. Those that are there are compared, others come behind them.
            key: With the same settings a key is one batch; without one it is always a new one.

        Raises:
            RequestError: The batch has other inputs than these.
            StoreError: The database is out of reach.
        """

    async def find(self, batch: str) -> BatchSummary:
        """Return the state of a batch. Raises UnknownNameError."""

    async def resume(
        self, batch: str, *, retry_failed: bool = False, cap: Decimal | None = None
    ) -> None:
        """Resume a batch that was stopped or has ended.

        Args:
            retry_failed: Inputs that failed are asked again.
            cap: What it may cost from now on; by default what it was.
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
            ordered: In the order of the inputs.
            waits: Whether to wait for results that are not there yet.
            before: What counts as stored: of each chunk so many; by default all that is there.
        """
