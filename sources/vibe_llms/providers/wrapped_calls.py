"""Wrappers of models of other genera than converser: the same model, called in another way."""

from __future__ import annotations

from typing import Generic, TypeVar

from vibe_llms.messages.call_results import CallResult
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.providers.interfaces import CallModel

In = TypeVar("In")
Out = TypeVar("Out", bound=CallResult)


class WrappedCallModel(Generic[In, Out]):
    """Wrapper of a model, with its descriptor and its limits.

    Args:
        model: The model.
    """

    def __init__(self, model: CallModel[In, Out]) -> None:
        self._model = model

    @property
    def descriptor(self) -> ModelDescriptor:
        """The model's name and attributes."""
        return self._model.descriptor

    @property
    def max_inputs(self) -> int:
        """Maximum inputs of one call."""
        return self._model.max_inputs

    @property
    def max_bytes(self) -> int:
        """Maximum size of the inputs of one call."""
        return self._model.max_bytes
