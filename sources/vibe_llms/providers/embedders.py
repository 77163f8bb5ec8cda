"""Embedders over the network: the vendor's form, with the rules that all calls share."""

from __future__ import annotations

import attrs

from vibe_llms.dialects.calls import CallForm
from vibe_llms.messages.losses import refuse_losses
from vibe_llms.messages.vectors import EmbeddingRequest, Vectors
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.providers.calls import call
from vibe_llms.providers.vendors import VendorClient


class RemoteEmbedder:
    """An embedder of a vendor; see :class:`.interfaces.EmbedderModel`."""

    def __init__(
        self,
        descriptor: ModelDescriptor,
        client: VendorClient,
        form: CallForm[EmbeddingRequest, Vectors],
    ) -> None:
        self._descriptor = descriptor
        self._client = client
        self._form = form

    @property
    def descriptor(self) -> ModelDescriptor:
        """The model's name and attributes."""
        return self._descriptor

    @property
    def most_texts(self) -> int:
        """Maximum texts of one request."""
        return self._form.most_inputs

    @property
    def most_bytes(self) -> int:
        """Maximum size of the texts of one request."""
        return self._form.most_bytes

    async def embed(self, request: EmbeddingRequest) -> Vectors:
        """Return the vectors of the texts, in their order.

        Raises:
            TranslationLossError: There are losses, and the request is strict.
            ConverseError: The request failed, or its answer is invalid.
        """
        translation = self._form.write(request, self._descriptor)
        if request.strict:
            refuse_losses(translation.losses)
        vectors = await call(self._client, self._descriptor, self._form, request, translation.value)
        if not translation.losses:
            return vectors
        return attrs.evolve(vectors, losses=(*translation.losses, *vectors.losses))
