"""Models that answer texts outside of a conversation, such as embedders, as the work of a batch."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

import attrs
import msgspec

from vibe_llms.application import Application
from vibe_llms.batches.call_joining import CallJoiner, JoinedAnswer, divide_usage
from vibe_llms.batches.direct_backend import ProcessInput
from vibe_llms.batches.item_lines import digest
from vibe_llms.batches.items import BatchItem
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.instruments.embedders import Embedder, SyncEmbedder
from vibe_llms.instruments.estimates import TextEstimator, write_input
from vibe_llms.instruments.moderators import Moderator, SyncModerator
from vibe_llms.messages.field_types import evolve_unchecked
from vibe_llms.messages.trusting import trusted
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.genera import Genus
from vibe_llms.models.tokens import count_text
from vibe_llms.providers.batches import BatchResult
from vibe_llms.providers.batching import AnyBatches

Instrument: TypeAlias = Embedder | Moderator
AnyInstrument: TypeAlias = Embedder | SyncEmbedder | Moderator | SyncModerator

TEXT_INSTRUMENTS: Final = (Embedder, SyncEmbedder, Moderator, SyncModerator)

MAX_IN_PROGRESS: Final = 4_096
"""Maximum inputs in progress: enough for several large requests at once."""

_PLACEHOLDER: Final = "text"

_make_item = trusted(BatchItem)


@frozen
class _Values:
    """Values of items of a genus.

    Attributes:
        convert: Returns the value of one text from the result of its request.
        restore: Returns a value from the JSON value in the journal.
    """

    convert: Callable[[Any], Any]
    restore: Callable[[Any], Any]


def ensure_text_options(options: Mapping[str, Any]) -> None:
    """Refuse options of a batch that an embedder or a moderator does not take. Raises TypeError."""
    if options:
        raise TypeError(
            f"Embedders and moderators do not take {', '.join(sorted(options))}: these are options "
            "of conversations."
        )


def _return_unchanged(value: Any) -> Any:
    return value


def _copy_row(row: memoryview) -> array[float]:
    return array("f", row.tobytes())


def _make_array(numbers: Any) -> array[float]:
    return array("f", numbers)


_VALUES: Final = {
    Genus.EMBEDDER: _Values(_copy_row, _make_array),
    Genus.MODERATOR: _Values(msgspec.to_builtins, _return_unchanged),
}


def produce_instrument(
    genus: str, address: str, options: Mapping[str, Any], application: Application
) -> Instrument:
    """Create the embedder or moderator of a specification.

    Args:
        options: Its arguments.

    Raises:
        RequestError: The genus does not answer single texts.
    """
    kinds: dict[str, type[Instrument]] = {each.genus: each for each in (Embedder, Moderator)}
    if genus not in kinds:
        detail = f"A batch cannot have a model of the genus {genus!r}."
        known = ", ".join([Genus.CONVERSER, *kinds])
        raise RequestError(path="genus", detail=detail, remedy=f"Known: {known}.")
    return kinds[genus](address, application=application, **options)


class TextWork:
    """Embedder or moderator that answers each input: a text.

    Args:
        instrument: The model; its options apply to all inputs.
        concurrency: Number of requests at once. Each has many texts.
        is_owner: Whether the batch closes the model.
    """

    has_answers = False

    def __init__(
        self, instrument: AnyInstrument, concurrency: int = 1, *, is_owner: bool = False
    ) -> None:
        if isinstance(instrument, (SyncEmbedder, SyncModerator)):
            instrument = instrument.asynchronous
        self._instrument: Instrument = instrument
        self._concurrency = concurrency
        self._is_owner = is_owner
        self._values = _VALUES[instrument.genus]
        self.template: Any = instrument.compose(_PLACEHOLDER)
        self._model: Any = None
        self._joiner: CallJoiner | None = None

    @property
    def concurrency(self) -> int:
        """Number of inputs in progress at once, once the work is prepared."""
        assert self._joiner is not None
        return min(self._concurrency * self._joiner.max_texts, MAX_IN_PROGRESS)

    async def prepare(self) -> ProcessInput:
        """Access the model; return the function that answers one text. Raises ConverseError."""
        await self.access_model()
        model = await self._instrument.access()
        self._joiner = CallJoiner(model, self.template, self._concurrency)
        return self._ask

    async def _ask(self, value: Any) -> BatchItem[Any]:
        assert self._joiner is not None
        request = await self.compose(value)
        return self._produce_item(await self._joiner.call(request.texts[0]))

    def _produce_item(self, answer: JoinedAnswer) -> BatchItem[Any]:
        result = answer.result
        return _make_item(
            value=self._values.convert(result[answer.place]),
            origin=evolve_unchecked(result.origin, usage=answer.usage),
            losses=tuple(map(str, result.losses)),
        )

    async def access_model(self) -> Any:
        """Return the provider's own model."""
        if self._model is None:
            instrument = self._instrument
            self._model = await instrument.application.access(
                instrument.genus, instrument.address, holder=instrument
            )
        return self._model

    async def compose(self, value: Any) -> Any:
        """Return the request for one text. Raises RequestError."""
        return self._instrument.compose(await self.compose_input(value))

    def estimate_tokens(self, request: Any, attributes: ModelAttributes) -> int:
        """Return the approximate tokens of a request."""
        return sum(count_text(text, attributes).tokens for text in request.texts)

    async def read_result(
        self, batches: AnyBatches, result: BatchResult, name: str | None
    ) -> BatchItem[Any]:
        """Return the item of a vendor's result. Raises ConverseError."""
        answer = await batches.read_response(result, self.template)
        (usage,) = divide_usage(answer.usage, [1])
        return self._produce_item(JoinedAnswer(answer, 0, usage))

    def describe(self) -> Any:
        """Describe the settings that all inputs share."""
        assert self._model is not None
        model = {str(self._instrument.genus): str(self._model.descriptor)}
        return {**model, **self._export_options()}

    def _export_options(self) -> dict[str, Any]:
        return attrs.asdict(self.template, filter=lambda field, _: field.name != "texts")

    async def identify(self, value: Any) -> Any:
        """Return the text."""
        return value

    async def compose_input(self, value: Any) -> str:
        """Return the text. Raises RequestError."""
        if isinstance(value, str):
            return value
        detail = f"An input is a {type(value).__name__}, not a text."
        remedy = f"Pass texts to a batch of a model of the genus {self._instrument.genus}."
        raise RequestError(path="inputs", detail=detail, remedy=remedy)

    async def restore(self, item: BatchItem[Any]) -> BatchItem[Any]:
        """Return an item of the journal with its value restored."""
        return attrs.evolve(item, value=self._values.restore(item.value))

    async def produce_estimator(self, cap: Decimal) -> TextEstimator:
        """Create the estimator of the maximum cost of a text. Raises ConfigurationError."""
        limits = self._instrument.application.configuration.limits
        return TextEstimator((await self.access_model()).descriptor, tries=limits.attempts)

    def ensure_portable(self) -> None:
        """Do nothing: workers have all models."""

    def compose_spec(self) -> dict[str, Any]:
        """Return the work's part of a specification; see :class:`.BatchSpec`."""
        return {
            "model": str(self._model.descriptor),
            "genus": str(self._instrument.genus),
            "options": self._export_options(),
            "settings": digest(self.describe()),
        }

    async def write(self, value: Any) -> tuple[str, str]:
        """Return the digest of a text and its stored form. Raises RequestError."""
        text = await self.compose_input(value)
        return digest(text), write_input(text)

    async def close(self) -> None:
        """Cancel requests under way; close the model if the batch owns it."""
        if self._joiner is not None:
            await self._joiner.close()
        if self._is_owner:
            await self._instrument.close()
