"""Upper bounds for the cost of requests and runs.

Money is an integer, in billionths of a dollar, so that sums are exact; databases store it in this
unit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Final, TypeAlias

import msgspec

from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.foundation.money import write_dollars
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.codec.canister_lines import decode_canisters, encode_canisters
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
"""Upper estimate of tokens: no written language has fewer bytes per token over a longer text."""
_FORM_TOKENS = 256
"""Tokens for a protocol's overhead around a request, with the schema's instructions."""
_BYTES_AROUND_A_TOOL = 128
"""Bytes for a protocol's overhead around the name, the description and the schema of a tool."""
_ELSEWHERE = ('"url"', '"file_id"', '"content_id"')
"""Words in a canister's line that refer to media stored elsewhere."""


class Estimator:
    """Estimator of the maximum cost of a batch's requests.

    Args:
        descriptor: Of the model.
        pattern: The request that all inputs share.
        attempts: Maximum number of answers per input: an invalid answer is quoted in the next
            request. The estimate counts each of these requests once.
        tries: How often each request may be sent, because of errors; the caller multiplies the
            estimate, since each time may be billed.

    Raises:
        ConfigurationError: The model's price or its maximum output is unknown.
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
        requested = pattern.controls.get("max_tokens")
        limit = descriptor.attributes.access_value("output_limit_tokens")
        output = requested if isinstance(requested, int) else limit
        if not isinstance(output, int):
            raise _refuse("the output limit is", "Set max_tokens")
        self._output = output
        self.estimate("")

    def estimate(self, written: str) -> int:
        """Return the maximum cost of an input.

        Args:
            written: The stored form of the input.

        Raises:
            ConfigurationError: The model's price, or the size of the data behind a URL, is unknown.
        """
        if self._provider in OWN_MACHINES:
            return 0
        first = (self._preface + len(written.encode())) // _BYTES_A_TOKEN + _FORM_TOKENS
        first += self._preface_unseen
        # A mention in plain text only costs a closer look.
        if any(word in written for word in _ELSEWHERE):
            given = read_input(written)
            first += 0 if isinstance(given, str) else self._bound_unseen(given)
        # Each further request adds the last answer, and at most as many tokens about its errors.
        added = 2 * self._output + _FORM_TOKENS
        longest = first + (self._attempts - 1) * added
        rates = find_dearest(self._provider, self._model, longest)
        if rates is None:
            raise _refuse("the price of the model is", "Name another model")
        # The sum of first, first + added, first + 2 * added and so on.
        tokens = self._attempts * first + added * self._attempts * (self._attempts - 1) // 2
        total: Decimal = rates[0] * tokens + rates[1] * self._output * self._attempts
        return count_money(total)

    def _bound_unseen(self, canisters: Sequence[AnyCanister]) -> int:
        """Return the maximum tokens of media whose bytes are not in their canisters."""
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
    """Estimator of the maximum cost of an engine's runs: their limit.

    Args:
        descriptor: Of the model.
        cents: The limit of each run.
        cap: Budget of the whole batch, in dollars.

    Raises:
        ConfigurationError: The model's price is unknown; or the budget does not suffice for one
            run.
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
                f"One run may cost {write_dollars(dollars)}, more than the cap of "
                f"{write_dollars(cap)}: raise the cap, or lower the engine's limit run_cents "
                f"(now {cents})."
            )
            raise ConfigurationError(findings=(Finding(place="cap", message=message),))
        self._amount = count_money(dollars)

    def estimate(self, written: str) -> int:
        """Return the maximum cost of a run, for any input."""
        return self._amount


AnyEstimator: TypeAlias = Estimator | RunEstimator


def count_money(amount: Decimal) -> int:
    """Convert dollars to billionths, rounded up."""
    return math.ceil(amount * _NANO)


def read_money(count: int) -> Decimal:
    """Convert billionths of a dollar to dollars."""
    return Decimal(count) / _NANO


def write_input(value: str | tuple[AnyCanister, ...]) -> str:
    """Encode an input.

    Raises:
        CodecError: The input cannot be encoded as JSON.
    """
    return json.dumps(value) if isinstance(value, str) else encode_canisters(value).decode()


_decode_text = msgspec.json.Decoder(str).decode


def read_input(written: str) -> str | tuple[AnyCanister, ...]:
    """Decode an input. Raises CodecError."""
    if written.startswith('"'):
        return _decode_text(written)
    return tuple(decode_canisters(written.encode()))


def _measure(canisters: Sequence[object]) -> int:
    return len(encode_canisters(canisters))  # type: ignore[arg-type]


def _measure_tool(tool: InvocableDescription) -> int:
    return len(write_plain([tool.name, tool.description, tool.schema])) + _BYTES_AROUND_A_TOOL


def _refuse(what: str, remedy: str) -> ConfigurationError:
    message = f"A cap is not possible: {what} unknown. {remedy}, or remove the cap."
    return ConfigurationError(findings=(Finding(place="cap", message=message),))
