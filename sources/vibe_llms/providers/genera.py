"""Access to models by genus, and the errors if there is none."""

from __future__ import annotations

from typing import cast

from vibe_llms.exceptions import UnknownNameError
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.models.genera import Genus
from vibe_llms.providers.interfaces import Client, EmbedderModel, GenusClient


async def access_embedder(client: Client, name: str) -> EmbedderModel:
    """Return an embedder of a client. Raises UnknownNameError if it has none."""
    if not isinstance(client, GenusClient):
        raise refuse_genus(client.provider.name, Genus.EMBEDDER)
    return cast(EmbedderModel, await client.access(name, Genus.EMBEDDER))


def ensure_converser(model: ModelDescriptor) -> None:
    """Refuse a model that is known not to converse. Raises UnknownNameError."""
    genus = model.attributes.genus
    if genus is not Genus.CONVERSER:
        raise UnknownNameError(
            kind="converser",
            name=str(model),
            detail=f"{model} is an {genus}, which does not converse.",
            remedy="Use `vibe embed`, or Embedder in Python.",
        )


def refuse_genus(provider: str, genus: Genus) -> UnknownNameError:
    """Return the error for a provider without models of a genus."""
    return UnknownNameError(
        kind=str(genus),
        name=provider,
        detail=f"The provider {provider!r} has no models of the genus {genus}.",
        remedy=f"`vibe models list --genus {genus}` lists those of other providers.",
    )


def require_name(name: str, provider: str) -> str:
    """Return the name of an embedder. Raises UnknownNameError if it is empty."""
    if name:
        return name
    raise UnknownNameError(
        kind="embedder",
        name=provider,
        detail=f"The provider {provider!r} has no default embedder.",
        remedy=f"Name one, as {provider}:MODEL.",
    )
