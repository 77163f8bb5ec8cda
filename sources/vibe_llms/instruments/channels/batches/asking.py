"""The work of a batch whose inputs are put to a model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.instruments.channels.batches.items import BatchItem, Outcome
from vibe_llms.instruments.models import Model
from vibe_llms.messages.canisters import AnyCanister, UserCanister
from vibe_llms.messages.requests import Request

_PLACEHOLDER = "?"
"""What is asked in the request that all others are made from."""


class Asking:
    """Puts each input to a model, with the same options.

    Args:
        model: Is asked; what it shares with others is looked up once for a run.
        options: Of each request.
        is_owner: Whether the model ends with the batch.
    """

    def __init__(self, model: Model, options: Mapping[str, Any], *, is_owner: bool) -> None:
        self._model = model
        self._options = options
        self._is_owner = is_owner

    async def prepare(self) -> Callable[[Any], Awaitable[Outcome[Any]]]:
        """Looks up what all requests share, and returns what asks one.

        Raises:
            ConverseError: The model cannot be used, for any input.
        """
        pattern = self._produce_pattern()
        model = self._model
        converser = await model.access()
        converser.check(pattern)
        is_followed = await model.join_reactors(None) is not None
        preface = pattern.canisters[:-1]

        async def ask(value: Any) -> Outcome[Any]:
            request = await self._fill(pattern, preface, value)
            reactors = await model.join_reactors(None) if is_followed else None
            response = await converser.converse(request, reactors, stream=False)
            text = response.text
            return Outcome(
                value=text,
                text=text,
                origin=response.metadata.origin,
                losses=response.losses,
                response=response,
            )

        return ask

    def describe(self) -> Any:
        """Says what is the same for all inputs."""
        return {"request": self._produce_pattern().digest()}

    def restore(self, item: BatchItem[Any]) -> BatchItem[Any]:
        """Returns an item of the journal with its value."""
        return item

    async def close(self) -> None:
        """Frees the model, where it is this batch's own."""
        if self._is_owner:
            await self._model.close()

    def _produce_pattern(self) -> Request:
        return self._model.request(_PLACEHOLDER, **self._options)

    async def _fill(self, pattern: Request, preface: Sequence[AnyCanister], value: Any) -> Request:
        if value.__class__ is str:
            return attrs.evolve(pattern, canisters=(*preface, UserCanister(value)))
        if isinstance(value, Mapping):
            raise RequestError(
                path="inputs",
                detail="An input is a table of variables, and no prompt takes them.",
                remedy="Give the batch a prompt, or texts as inputs.",
            )
        filled = await self._model.hydrate(self._model.request(value))
        if isinstance(value, Request):
            return filled
        return attrs.evolve(pattern, canisters=(*preface, *filled.canisters))
