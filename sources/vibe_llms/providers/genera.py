"""Access to models by genus, and the errors if a provider has none of a genus."""

from __future__ import annotations

from typing import Any, Final, cast

from vibe_llms.exceptions import UnknownNameError
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.models.genera import Genus
from vibe_llms.providers.interfaces import CallModel, Client, GenusClient

COMMANDS: Final = {
    Genus.EMBEDDER: "embed",
    Genus.ILLUSTRATOR: "draw",
    Genus.MODERATOR: "moderate",
    Genus.RANKER: "rank",
    Genus.SPEAKER: "speak",
    Genus.TRANSCRIBER: "transcribe",
}
"""The commands for models that are not conversers."""


async def access_model(client: Client, name: str, genus: Genus) -> CallModel[Any, Any]:
    """Return a client's model of a genus. Raises UnknownNameError if it has none."""
    if not isinstance(client, GenusClient):
        raise refuse_genus(client.provider.name, genus)
    return cast(CallModel[Any, Any], await client.access(name, genus))


def ensure_converser(model: ModelDescriptor) -> None:
    """Refuse a model that is known not to converse. Raises UnknownNameError."""
    genus = model.attributes.genus
    if genus is not Genus.CONVERSER:
        raise UnknownNameError(
            kind="converser",
            name=str(model),
            detail=f"The model {model} does not converse; it is of the genus {genus}.",
            remedy=f"Use `vibe {COMMANDS[genus]}`.",
        )


def refuse_genus(provider: str, genus: Genus) -> UnknownNameError:
    """Return the error for a provider without models of a genus."""
    return UnknownNameError(
        kind=str(genus),
        name=provider,
        detail=f"The provider {provider!r} has no models of the genus {genus}.",
        remedy=f"`vibe models list --genus {genus}` lists those of other providers.",
    )


def refuse_default(provider: str, genus: Genus) -> UnknownNameError:
    """Return the error for a provider whose default model is of another genus."""
    return UnknownNameError(
        kind=str(genus),
        name=provider,
        detail=f"The provider {provider!r} has no default {genus}.",
        remedy=f"Name one, as {provider}:MODEL.",
    )
