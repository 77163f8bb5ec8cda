"""Upper bounds for the cost of requests and runs, and the money they are counted in.

Money is an integer: billionths of a dollar, so that sums are exact.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Final, TypeAlias

import msgspec

from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.codec.lines import decode_canisters, encode_canisters
from vibe_llms.messages.contents import ImageContent
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.json_values import write_plain
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import media_of
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.models.pictures import bound_image
from vibe_llms.telemetry.prices import OWN_MACHINES, find_dearest

_NANO: Final = 1_000_000_000
_BYTES_A_TOKEN = 2
"""An estimate from above: no language that is written has fewer bytes a token for long."""
_FORM_TOKENS = 256
"""What a protocol says around a request's own words, with the schema's instructions."""
_BYTES_AROUND_A_TOOL = 128
"""What a protocol says around the name, the description and the schema of a tool."""
_ELSEWHERE = ('"url"', '"file_id"', '"content_id"')
"""What a line of a canister says of media that are held elsewhere."""


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
            raise _refuse("the output limit is", "Set max_tokens")
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
            raise _refuse("the price of the model is", "Name another model")
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
                raise _refuse(
                    f"the size of the {content.mime_type} behind a URL is", "Send its bytes"
                )
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
            raise _refuse("the price of the model is", "Name another model")
        dollars = Decimal(0) if is_free else Decimal(cents) / 100
        if dollars > cap:
            message = (
                f"One run may cost ${dollars:,.2f}, more than the cap of ${cap:,.2f}: raise "
                f"the cap, or lower the engine's limit run_cents (now {cents})."
            )
            raise ConfigurationError(findings=(Finding(place="cap", message=message),))
        self._amount = count_money(dollars)

    def estimate(self, said: str) -> int:
        """Returns what a run may cost, whatever the input."""
        return self._amount


AnyEstimator: TypeAlias = Estimator | RunEstimator


def count_money(amount: Decimal) -> int:
    """Returns dollars as the tables count them; what is less than the smallest counts as one."""
    return math.ceil(amount * _NANO)


def read_money(count: int) -> Decimal:
    """Returns dollars."""
    return Decimal(count) / _NANO


def write_input(said: str | tuple[AnyCanister, ...]) -> str:
    """Writes what is said.

    Raises:
        CodecError: It cannot be written as JSON.
    """
    return json.dumps(said) if isinstance(said, str) else encode_canisters(said).decode()


_decode_text = msgspec.json.Decoder(str).decode


def read_input(written: str) -> str | tuple[AnyCanister, ...]:
    """Reads what is said. Raises CodecError."""
    if written.startswith('"'):
        return _decode_text(written)
    return tuple(decode_canisters(written.encode()))


def _measure(canisters: Sequence[object]) -> int:
    return len(encode_canisters(canisters))  # type: ignore[arg-type]


def _measure_tool(told: InvocableDescription) -> int:
    return len(write_plain([told.name, told.description, told.schema])) + _BYTES_AROUND_A_TOOL


def _refuse(what: str, remedy: str) -> ConfigurationError:
    message = f"A cap is not possible: {what} unknown. {remedy}, or remove the cap."
    return ConfigurationError(findings=(Finding(place="cap", message=message),))
