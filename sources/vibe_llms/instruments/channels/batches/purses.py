"""What a batch may spend: put down before anything is sent, and corrected by what it has cost.

So what is on its way is counted, and the cap is not passed by it. What was put down for a request
whose worker has died stays so, as it may have been billed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, TypeAlias

from vibe_llms.exceptions import ConfigurationError, Finding, ParseError, ProviderError
from vibe_llms.gathering import Gatherer
from vibe_llms.instruments.channels.batches.databases import BatchDatabase
from vibe_llms.instruments.channels.batches.items import BatchItem
from vibe_llms.instruments.channels.batches.orders import read_input
from vibe_llms.instruments.channels.batches.tables import count_money
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import ImageContent
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.json_values import write_plain
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import media_of
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.models.pictures import bound_image
from vibe_llms.telemetry.prices import OWN_MACHINES, find_dearest

_BYTES_A_TOKEN = 2
"""An estimate from above: no language that is written has fewer bytes a token for long."""
_FORM_TOKENS = 256
"""What a protocol says around a request's own words, with the schema's instructions."""
_BYTES_AROUND_A_TOOL = 128
"""What a protocol says around the name, the description and the schema of a tool."""
_ELSEWHERE = ('"url"', '"file_id"', '"content_id"')
"""What a line of a canister says of media that are held elsewhere."""


class Purse:
    """What is left of what a batch may cost.

    Args:
        database: Has the batch.
        batch: Its id.
    """

    def __init__(self, database: BatchDatabase, batch: str) -> None:
        self._database = database
        self._batch = batch
        self._gatherer: Gatherer[int, bool] = Gatherer(self._grant)
        self._out = 0
        self._settled = 0
        self._waiting: list[asyncio.Future[None]] = []

    async def acquire(self, amount: int) -> bool:
        """Puts an amount down; returns whether there was as much.

        Where there is not, what is under way here is waited for: it may have cost less.
        """
        while True:
            settled = self._settled
            granted = asyncio.ensure_future(self._gatherer.ask(amount))
            try:
                was_granted = await asyncio.shield(granted)
            except asyncio.CancelledError:  # it is asked for all the same, and given back
                granted.add_done_callback(lambda asked: self._give_back(asked, amount))
                raise
            if was_granted:
                self._out += 1
                return True
            if settled != self._settled:
                continue
            if not self._out:
                return False
            change = asyncio.get_running_loop().create_future()
            self._waiting.append(change)
            await change

    def _give_back(self, asked: asyncio.Future[bool], amount: int) -> None:
        """Takes back what was put down for who has gone meanwhile."""
        if not asked.cancelled() and asked.exception() is None and asked.result():
            given = self._gatherer.put(-amount)
            given.add_done_callback(lambda done: done.exception())  # else it stays put down
            self._look_again()

    def settle(self) -> None:
        """Notes that something under way has come to its end, and what it has cost is written."""
        self._out -= 1
        self._look_again()

    def _look_again(self) -> None:
        """Lets those who wait look whether there is as much now."""
        self._settled += 1
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    async def release(self, amount: int) -> None:
        """Takes back what was put down for something that was not billed."""
        await self._gatherer.ask(-amount)

    def _grant(self, amounts: Sequence[int]) -> list[bool]:
        with self._database.transact() as transaction:
            rows = transaction.fetch(
                "UPDATE vibe_batches SET committed = committed WHERE id = ?"
                " RETURNING cap, committed",
                self._batch,
            )
            if not rows:
                return [False] * len(amounts)
            cap, committed = rows[0]
            granted = []
            for amount in amounts:
                fits = cap is None or committed + amount <= cap
                granted.append(fits)
                committed += amount if fits else 0
            transaction.change(
                "UPDATE vibe_batches SET committed = ? WHERE id = ?", committed, self._batch
            )
        return granted


class Estimator:
    """Says what requests of a batch cost at most.

    Args:
        descriptor: Of the model.
        pattern: The request that all are like.
        attempts: How many answers may be asked for, each with those before it quoted; each sent
            once.
        tries: How often each may be sent, every one of which may be billed.

    Raises:
        ConfigurationError: Nobody knows what the model costs, or how long an answer may be.
    """

    is_run = False

    def __init__(
        self, descriptor: ModelDescriptor, pattern: Request, attempts: int = 1, *, tries: int = 1
    ) -> None:
        self.tries = tries
        self._provider, self._model = descriptor.priced
        self._attempts = attempts
        self._image_rule = descriptor.attributes.access_value("image_tokens")
        self._preface = _measure(pattern.canisters[:-1]) + (
            0 if pattern.schema is None else len(str(pattern.schema))
        )
        self._preface += sum(map(_measure_tool, pattern.invocables))
        self._preface_unseen = self._bound_unseen(pattern.canisters[:-1])
        said = pattern.controls.get("max_tokens")
        known = descriptor.attributes.access_value("output_limit_tokens")
        output = said if isinstance(said, int) else known
        if not isinstance(output, int):
            raise _refuse("how long an answer may be", "Say max_tokens")
        self._output = output
        self.estimate("")

    def estimate(self, said: str) -> int:
        """Returns what asking for an input costs at most.

        Args:
            said: The input as it is kept.

        Raises:
            ConfigurationError: Nobody knows what the model costs, or how much is behind a URL.
        """
        if self._provider in OWN_MACHINES:
            return 0
        first = (self._preface + len(said.encode())) // _BYTES_A_TOKEN + _FORM_TOKENS
        first += self._preface_unseen
        if any(word in said for word in _ELSEWHERE):  # a mere word of a text costs a look
            given = read_input(said)
            first += 0 if isinstance(given, str) else self._bound_unseen(given)
        again = 2 * self._output + _FORM_TOKENS  # an answer, and what is wrong with it
        longest = first + (self._attempts - 1) * again
        rates = find_dearest(self._provider, self._model, longest)
        if rates is None:
            raise _refuse("what the model costs", "Name another model")
        asked = self._attempts * first + again * self._attempts * (self._attempts - 1) // 2
        total: Decimal = rates[0] * asked + rates[1] * self._output * self._attempts
        return count_money(total)

    def _bound_unseen(self, canisters: Sequence[AnyCanister]) -> int:
        """Returns how many tokens media are at most whose bytes are not in their canisters."""
        total = 0
        for content in media_of(canisters):
            if content.data is not None:
                continue
            if not isinstance(content, ImageContent):
                raise _refuse(f"how much the {content.mime_type} behind a URL is", "Send its bytes")
            total += bound_image(content, self._image_rule)
        return total


class RunEstimator:
    """Says what runs of an engine cost at most: what their limit says.

    Args:
        descriptor: Of the model.
        cents: The limit of each run.
        cap: What the whole batch may cost, in dollars.

    Raises:
        ConfigurationError: Nobody knows what the model costs; or the cap bears not one run.
    """

    is_run = True
    tries = 1

    def __init__(self, descriptor: ModelDescriptor, cents: int, cap: Decimal) -> None:
        provider, model = descriptor.priced
        is_free = provider in OWN_MACHINES
        if not is_free and find_dearest(provider, model, 0) is None:
            raise _refuse("what the model costs", "Name another model")
        dollars = Decimal(0) if is_free else Decimal(cents) / 100
        if dollars > cap:
            message = (
                f"A cap of ${cap:,.2f} bears not one run, which may cost ${dollars:,.2f}: give a "
                f"higher cap, or the engine a lower limit run_cents ({cents} now)."
            )
            raise ConfigurationError(findings=(Finding(place="cap", message=message),))
        self._amount = count_money(dollars)

    def estimate(self, said: str) -> int:
        """Returns what a run may cost, whatever the input."""
        return self._amount


AnyEstimator: TypeAlias = Estimator | RunEstimator


def count_known(item: BatchItem[Any], amount: int, estimator: AnyEstimator) -> int:
    """Returns how much of what was put down for an item its cost replaces.

    What the vendor itself has refused is not billed, and what did not fit the schema is accounted
    for; of what broke off nobody knows, nor of what was sent again why it was. A run says what it
    has used, however it ended.
    """
    error = item.error
    is_known = error is None or isinstance(error, (ProviderError, ParseError))
    if estimator.is_run and item.origin is not None:
        is_known = True
    return amount - amount // estimator.tries * max(0, item.sent - is_known)


def _measure(canisters: Sequence[object]) -> int:
    from vibe_llms.messages.codec.lines import encode_canisters

    return len(encode_canisters(canisters))  # type: ignore[arg-type]


def _measure_tool(told: InvocableDescription) -> int:
    return len(write_plain([told.name, told.description, told.schema])) + _BYTES_AROUND_A_TOOL


def _refuse(what: str, remedy: str) -> ConfigurationError:
    message = f"A cap cannot be kept where nobody knows {what}. {remedy}, or give no cap."
    return ConfigurationError(findings=(Finding(place="cap", message=message),))
