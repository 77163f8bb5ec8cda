"""What a batch asks for, as data that any worker reads, and who has it performed elsewhere."""

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
    """What each input is put to, and how: a model, an engine or a function, by their names.

    Attributes:
        model: Its whole address; empty where a function is called.
        request: The request that all others are like, as JSON; its last canister stands for the
            input.
        schema: What answers are held to; ``None`` for text.
        name: What a model calls such an answer.
        attempts: How many answers are asked for until one fits the schema.
        concurrency: How many inputs each worker asks at once.
        retries: How often an input is asked again whose error may pass.
        cap_usd: What the whole batch may cost, as a decimal number of dollars; ``None`` for any.
        priority: Of two batches the higher one goes first.
        settings: The digest of what tells this batch's lines from those of others.
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
        """The request that all others are like."""
        return decode_request(bytes(self.request))

    @property
    def cap(self) -> Decimal | None:
        """What the batch may cost, in dollars."""
        return None if self.cap_usd is None else Decimal(self.cap_usd)

    def produce_parser(self) -> Parser[Any] | None:
        """Makes what reads the answers; ``None`` where they are text."""
        if self.schema is None:
            return None
        return Parser(self.schema, name=self.name, attempts=self.attempts)


def encode_order(order: BatchOrder) -> str:
    """Writes an order."""
    return msgspec.json.encode(order).decode()


def decode_order(text: str) -> BatchOrder:
    """Reads an order.

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
    """Reads whom an order asks, a model or a function; empty where a later version has written
    what does not read."""
    try:
        named = msgspec.json.decode(text, type=_Named)
        return named.model or named.function
    except msgspec.DecodeError:
        return ""


def write_pattern(request: Request) -> msgspec.Raw:
    """Writes the request that all others are like."""
    return msgspec.Raw(encode_request(request))


# Not followed by Python's collector: there is one for each input, and none is part of a cycle.
class KeptInput(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An input as it is kept.

    Attributes:
        name: By which it is known, where it has one.
        digest: Of the input.
        input: What is said: JSON of a text, or lines of canisters.
    """

    name: str | None
    digest: str
    input: str


@frozen(kw_only=True)
class BatchSummary:
    """How far a batch has come, whoever works at it.

    Attributes:
        id: Its name in the database.
        state: Where it stands.
        detail: Why, where somebody has to know.
        model: Whom it asks: a model, or a function.
        total: How many inputs it has; ``None`` until all are there.
        known: How many are there.
        done: How many were done or failed.
        failed: How many of those failed.
        input_tokens: What all answers used.
        output_tokens: The same of what was said.
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
        line: Its line, as in a journal of lines.
        is_stored: Whether it was there before anybody followed.
    """

    line: bytes
    is_stored: bool


class Submitted(NamedTuple):
    """A batch that was handed over.

    Attributes:
        batch: Its id.
        before: How many results each of its chunks had before that, by number, where it had any.
    """

    batch: str
    before: Mapping[int, int]


class BatchRunner(Protocol):
    """Has batches performed by workers, and tells how far they are."""

    async def submit(
        self, order: BatchOrder, asked: AsyncIterator[KeptInput], key: str = ""
    ) -> Submitted:
        """Asks for a batch, or goes on with one.

        Args:
            asked: Its inputs. Those that are there are compared, others come behind them.
            key: With the same settings a key is one batch; without one it is always a new one.

        Raises:
            RequestError: The batch has other inputs than these.
            StoreError: The database is out of reach.
        """

    async def find(self, batch: str) -> BatchSummary:
        """Returns how far a batch is. Raises UnknownNameError."""

    async def resume(
        self, batch: str, *, retry_failed: bool = False, cap: Decimal | None = None
    ) -> None:
        """Lets a batch go on that was stopped or has ended.

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
        """Yields what came of each item, as it comes, until nobody works at the batch any more.

        Args:
            ordered: In the order of the inputs.
            waits: Whether it goes on when all was yielded that is there.
            before: What counts as stored: of each chunk so many; by default all that is there.
        """
