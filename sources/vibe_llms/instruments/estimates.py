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
from vibe_llms.messages.canisters import AnyCanister, Usage
from vibe_llms.messages.codec.canister_lines import decode_canisters, encode_canisters
from vibe_llms.messages.contents import ImageContent
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.json_values import write_plain
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import media_of
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.models.pictures import bound_image
from vibe_llms.telemetry.prices import OWN_MACHINES, Unpriced, find_dearest, price_usage

_BILLION: Final = 1_000_000_000
_BYTES_PER_TOKEN = 2
"""Upper estimate of tokens: no written language has fewer bytes per token over a longer text."""
_REQUEST_OVERHEAD_TOKENS = 256
"""Tokens that a protocol adds to a request, including the instructions for a schema."""
_TEXT_OVERHEAD_TOKENS = 8
"""Tokens that mark the beginning and the end of a text."""
_TOOL_OVERHEAD_BYTES = 128
"""Bytes that a protocol adds to the name, the description and the schema of a tool."""
_REFERENCES = ('"url"', '"file_id"', '"content_id"')
"""Keys in the JSON of a canister that refer to media stored elsewhere."""


class Estimator:
    """Estimator of the maximum cost of a batch's requests.

    Args:
        descriptor: The descriptor of the model.
        pattern: The request that all inputs share.
        attempts: Maximum number of answers per input: an invalid answer is quoted in the next
            request. The estimate counts each of these requests once.
        tries: Maximum number of times that each request is sent, because of errors. Each may be
            billed, so the caller multiplies the estimate by this number.

    Attributes:
        is_run: True if each input is answered by the run of an engine.

    Raises:
        ConfigurationError: The model's price or its maximum output is unknown.
    """

    is_run = False

    def __init__(
        self, descriptor: ModelDescriptor, pattern: Request, attempts: int = 1, *, tries: int = 1
    ) -> None:
        self.tries = tries
        self._provider, self._model = descriptor.price_key
        self._attempts = attempts
        self._image_rule = descriptor.attributes.access_value("image_tokens")
        shared_canisters = pattern.canisters[:-1]  # without the placeholder for the input
        self._shared_bytes = _measure(shared_canisters)
        self._shared_bytes += 0 if pattern.schema is None else len(str(pattern.schema))
        self._shared_bytes += sum(map(_measure_tool, pattern.invocables))
        self._shared_media_tokens = self._bound_referenced_media(shared_canisters)
        requested = pattern.controls.get("max_tokens")
        limit = descriptor.attributes.access_value("output_limit_tokens")
        output = requested if isinstance(requested, int) else limit
        if not isinstance(output, int):
            raise _refuse("the output limit", "Set max_tokens")
        self._output_tokens = output
        self.estimate("")  # raises an error if the price is unknown

    def estimate(self, encoded_input: str) -> int:
        """Return the maximum cost of an input, in billionths of a dollar.

        Args:
            encoded_input: The input as :func:`write_input` encodes it.

        Raises:
            ConfigurationError: The model's price, or the size of the data behind a URL, is unknown.
        """
        if self._provider in OWN_MACHINES:
            return 0
        size_bytes = self._shared_bytes + len(encoded_input.encode())
        first = size_bytes // _BYTES_PER_TOKEN + _REQUEST_OVERHEAD_TOKENS
        first += self._shared_media_tokens
        # A quick check before the input is decoded; these words may also occur in plain text.
        if any(key in encoded_input for key in _REFERENCES):
            value = read_input(encoded_input)
            first += 0 if isinstance(value, str) else self._bound_referenced_media(value)
        # Each further request adds the last answer, and at most as many tokens about its errors.
        added = 2 * self._output_tokens + _REQUEST_OVERHEAD_TOKENS
        longest = first + (self._attempts - 1) * added
        rates = find_dearest(self._provider, self._model, longest)
        if rates is None:
            raise _refuse("the price of the model", "Name another model")
        # The sum of first, first + added, first + 2 * added and so on.
        tokens = self._attempts * first + added * self._attempts * (self._attempts - 1) // 2
        total: Decimal = rates[0] * tokens + rates[1] * self._output_tokens * self._attempts
        return count_money(total)

    def _bound_referenced_media(self, canisters: Sequence[AnyCanister]) -> int:
        """Return the maximum tokens of media whose bytes are not in their canisters."""
        total = 0
        for content in media_of(canisters):
            if content.data is not None:
                continue
            if not isinstance(content, ImageContent):
                raise _refuse(f"the size of the {content.mime_type} behind a URL", "Send its bytes")
            total += bound_image(content, self._image_rule)
        return total


class RunEstimator:
    """Estimator of the maximum cost of an engine's runs: the limit of each run.

    Args:
        descriptor: The descriptor of the model.
        cents: The limit of each run.
        cap: Budget of the whole batch, in dollars.

    Raises:
        ConfigurationError: The model's price is unknown; or the budget does not suffice for one
            run.
    """

    is_run = True
    tries = 1

    def __init__(self, descriptor: ModelDescriptor, cents: int, cap: Decimal) -> None:
        provider, model = descriptor.price_key
        is_free = provider in OWN_MACHINES
        if not is_free and find_dearest(provider, model, 0) is None:
            raise _refuse("the price of the model", "Name another model")
        dollars = Decimal(0) if is_free else Decimal(cents) / 100
        if dollars > cap:
            message = (
                f"One run may cost {write_dollars(dollars)}, more than the cap of "
                f"{write_dollars(cap)}: raise the cap, or lower the engine's limit run_cents "
                f"(now {cents})."
            )
            raise ConfigurationError(findings=(Finding(place="cap", message=message),))
        self._amount = count_money(dollars)

    def estimate(self, encoded_input: str) -> int:
        """Return the maximum cost of a run, which does not depend on the input."""
        return self._amount


class TextEstimator:
    """Estimator of the maximum cost of texts for a model without output, such as an embedder.

    Args:
        descriptor: The descriptor of the model.
        tries: Maximum number of times that each request is sent.

    Raises:
        ConfigurationError: The model's price is unknown.
    """

    is_run = False

    def __init__(self, descriptor: ModelDescriptor, *, tries: int = 1) -> None:
        self.tries = tries
        self._provider, self._model = descriptor.price_key
        self.estimate("")  # raises an error if the price is unknown

    def estimate(self, encoded_input: str) -> int:
        """Return the maximum cost of a text, in billionths of a dollar."""
        if self._provider in OWN_MACHINES:
            return 0
        tokens = len(encoded_input.encode()) // _BYTES_PER_TOKEN + _TEXT_OVERHEAD_TOKENS
        usage = Usage(input_tokens=tokens)
        price = price_usage(usage, provider=self._provider, model=self._model)
        if isinstance(price, Unpriced):
            raise _refuse("the price of the model", "Name another model")
        return count_money(price.amount)


AnyEstimator: TypeAlias = Estimator | RunEstimator | TextEstimator


def count_money(amount: Decimal) -> int:
    """Convert dollars to billionths, rounded up."""
    return math.ceil(amount * _BILLION)


def read_money(count: int) -> Decimal:
    """Convert billionths of a dollar to dollars."""
    return Decimal(count) / _BILLION


def write_input(value: str | tuple[AnyCanister, ...]) -> str:
    """Encode an input.

    Raises:
        CodecError: The input cannot be encoded as JSON.
    """
    return json.dumps(value) if isinstance(value, str) else encode_canisters(value).decode()


_decode_text = msgspec.json.Decoder(str).decode


def read_input(encoded_input: str) -> str | tuple[AnyCanister, ...]:
    """Decode an input. Raises CodecError."""
    if encoded_input.startswith('"'):
        return _decode_text(encoded_input)
    return tuple(decode_canisters(encoded_input.encode()))


def _measure(canisters: Sequence[object]) -> int:
    return len(encode_canisters(canisters))  # type: ignore[arg-type]


def _measure_tool(tool: InvocableDescription) -> int:
    return len(write_plain([tool.name, tool.description, tool.schema])) + _TOOL_OVERHEAD_BYTES


def _refuse(unknown: str, remedy: str) -> ConfigurationError:
    message = f"A cap is not possible: {unknown} is unknown. {remedy}, or remove the cap."
    return ConfigurationError(findings=(Finding(place="cap", message=message),))
