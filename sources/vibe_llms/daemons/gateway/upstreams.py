"""Find the model behind the name that a client uses."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeGuard, cast

from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    RequestError,
    Stage,
    TrustError,
    UnknownNameError,
)
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.vectors import EmbeddingRequest, Vectors
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.genera import Genus
from vibe_llms.providers.call_observing import observe_calls
from vibe_llms.providers.calls import RemoteCallModel
from vibe_llms.providers.remote_clients import RemoteClient
from vibe_llms.providers.remote_models import RemoteModel

if TYPE_CHECKING:
    from vibe_llms.application import Application
    from vibe_llms.events.calls import CallListener
    from vibe_llms.providers.interfaces import ConverserModel, ModelDescriptor


_LOGGER: Final = logging.getLogger("vibe_llms.daemons.gateway")
_CACHED_NAMES: Final = 1_000
_CACHED_CHARACTERS: Final = 256
"""Limits on the names in the cache, and on the length of each: clients choose them."""

_LONGEST_NAME: Final = 1_000
"""Length of the longest name that is looked up: the caches of the application are by name, too."""

_SURVEY_SECONDS: Final = 10
"""Timeout for listing the models of a vendor."""


@frozen(slots=False)  # with slots, attrs makes all attributes slow beside a cached property
class Upstream:
    """A model to ask.

    Attributes:
        model: The model.
        strict: Refuse requests whose translation would lose anything.
    """

    model: ConverserModel
    strict: bool = False

    @cached_property
    def address(self) -> str:
        """The model, as ``provider:name``."""
        descriptor = self.model.descriptor
        return f"{descriptor.provider}:{descriptor.name}"

    @cached_property
    def name(self) -> str:
        """The vendor's name for the model."""
        return self.model.descriptor.name


_REMOTE: Final = (RemoteModel, RemoteCallModel)


def is_remote(model: object) -> TypeGuard[RemoteModel]:
    """Return whether a model belongs to a vendor over the network.

    A model of another genus counts as well: it has all attributes that the gateway uses.
    """
    return isinstance(model, _REMOTE)


def ensure_unguarded(model: object) -> None:
    """Refuse to pass through untranslated data that guards must examine. Raises RequestError."""
    if hasattr(model, "unguarded"):
        raise RequestError(
            path="model",
            detail="Guards examine the requests of this model, which are not translated here.",
            remedy="Use a path of the API that is translated, such as /v1/chat/completions.",
            stage=Stage.FRAME,
        )


def can_pass_through(model: object, protocol: str) -> TypeGuard[RemoteModel]:
    """Return whether a model's vendor uses the protocol."""
    return isinstance(model, RemoteModel) and model.protocol == protocol


class Upstreams:
    """Finds models by the addresses and aliases of the configuration.

    Args:
        application: Has the providers.
        models: Names that clients may use, and their addresses; without any, all names of the
            configuration are allowed.

    Attributes:
        models: The same; may be replaced at any time.
    """

    def __init__(self, application: Application, models: Mapping[str, str] | None = None) -> None:
        self._application = application
        self.models = dict(models or {})
        self._cache: dict[str, Upstream] = {}

    def find(self, name: str, genus: Genus = Genus.CONVERSER) -> Upstream | None:
        """Return the model of a name if it is loaded; else ``None``: use :meth:`access`."""
        address = self.models.get(name) if self.models else name
        if not address or len(name) > _LONGEST_NAME:
            return None
        application = self._application
        if genus is Genus.CONVERSER:
            model = application.find_model(address, application)
        else:
            found = application.find_call_model(genus, address, application)
            model = cast("ConverserModel | None", found)
        if model is None:
            return None
        upstream = self._cache.get(name)
        if upstream is None or upstream.model is not model:
            upstream = Upstream(model)
            if len(name) <= _CACHED_CHARACTERS:
                if len(self._cache) >= _CACHED_NAMES:
                    self._cache.clear()
                self._cache[name] = upstream
        return upstream

    async def embed(self, text: str, listeners: Sequence[CallListener] = ()) -> bytes:
        """Return the vector of a text by the configured embedder: floats of four bytes.

        Args:
            listeners: Notified of the call.

        Raises:
            ConverseError: The embedder cannot be loaded, or fails.
        """
        application = self._application
        model = await application.access(Genus.EMBEDDER, holder=application)
        model = observe_calls(model, Genus.EMBEDDER, listeners)
        vectors: Vectors = await model.call(EmbeddingRequest(texts=(text,), purpose="query"))
        return vectors.data

    async def access(self, name: str, genus: Genus = Genus.CONVERSER) -> Upstream:
        """Return the model of a name.

        Args:
            name: Empty for the configured model.
            genus: The genus of the model.

        Raises:
            RequestError: The name is empty, and no default model is configured.
            UnknownNameError: The name is unknown.
            ConverseError: The provider cannot be loaded.
        """
        if not name:
            return await self._access_default(genus)
        if len(name) > _LONGEST_NAME:
            raise UnknownNameError(kind="model", name=name, remedy="GET /v1/models.")
        address = name
        if self.models:
            if name not in self.models:
                raise UnknownNameError(
                    kind="model", name=name, known=tuple(self.models), remedy="GET /v1/models."
                )
            address = self.models[name]
        try:
            return await self.reach(address, genus=genus)
        except UnknownNameError as error:
            if not error.kind.startswith("provider"):  # the provider's error lists its models
                raise
            # Clients do not know providers, so report an unknown model.
            raise UnknownNameError(kind="model", name=name, remedy="GET /v1/models.") from None
        except TrustError as error:  # only the operator may install it
            _LOGGER.warning("Cannot ask %r: %s", name, error)
            raise UnknownNameError(kind="model", name=name, remedy="GET /v1/models.") from error
        except ConfigurationError:
            if not self.models and not _is_address(name):
                raise UnknownNameError(
                    kind="model", name=name, known=(), remedy="GET /v1/models."
                ) from None
            raise

    async def _access_default(self, genus: Genus) -> Upstream:
        cause: ConverseError | None = None
        if not self.models:
            try:
                return await self.reach("", genus=genus)
            except ConverseError as error:
                cause = error
        raise RequestError(
            path="model",
            detail="The request names no model, and no default model is configured.",
            remedy="Name one of the models that GET /v1/models lists.",
            stage=Stage.FRAME,
        ) from cause

    async def reach(
        self, address: str, *, strict: bool = False, genus: Genus = Genus.CONVERSER
    ) -> Upstream:
        """Return the model of any address, even if clients may not use it.

        Raises:
            ConverseError: As :meth:`access`.
        """
        application = self._application
        if genus is Genus.CONVERSER:
            return Upstream(await application.access_model(address), strict)
        if genus is Genus.RANKER:
            from vibe_llms.instruments.rankers import access_ranker

            model = await access_ranker(application, address)
        else:
            model = await application.access(genus, address)
        # The stages of such calls use only the model's descriptor; the last stage casts the model
        # back.
        return Upstream(cast("ConverserModel", model), strict)

    def find_hold(self, address: str) -> float:
        """Return the seconds until a loaded model's vendor accepts requests again."""
        model = self._application.find_model(address, self._application)
        client = model.client if is_remote(model) else None
        return client.limiter.hold_seconds if isinstance(client, RemoteClient) else 0.0

    async def list_names(self) -> list[str]:
        """Return the names that clients may use, as far as known."""
        if self.models:
            return sorted(self.models)
        configuration = self._application.configuration
        names = {configuration.model: None} | dict.fromkeys(configuration.aliases)
        return list(names | dict.fromkeys(map(str, await self._survey_all())))

    async def list_models(self) -> dict[str, ModelDescriptor]:
        """Return the descriptors of models by the names that clients may use."""
        if self.models:
            return {
                name: (await self.access(name)).model.descriptor for name in sorted(self.models)
            }
        models = {str(model): model for model in await self._survey_all()}
        with contextlib.suppress(ConverseError):  # for example, if its weights are missing
            default = (await self.access("")).model.descriptor
            models = {str(default): default} | models
        return self._name_aliases(models) | models

    def _name_aliases(self, models: Mapping[str, ModelDescriptor]) -> dict[str, ModelDescriptor]:
        """Return the models that have aliases, by alias."""
        named: dict[str, ModelDescriptor] = {}
        for alias in sorted(self._application.configuration.aliases):
            with contextlib.suppress(ConverseError):  # it names a missing provider or model
                address = str(self._application.resolve_address(alias))
                if address in models:
                    named[alias] = models[address]
        return named

    async def _survey_all(self) -> list[ModelDescriptor]:
        surveys = await asyncio.gather(*map(self._survey, await self._select_ready()))
        return [model for survey in surveys for model in survey]

    async def _select_ready(self) -> list[str]:
        """Return the providers that are completely configured."""
        from vibe_llms.plugins.missing_requirements import select_ready

        plugins = self._application.plugins
        providers = list(self._application.configuration.providers)
        return await asyncio.to_thread(select_ready, plugins, providers)

    async def _survey(self, provider: str) -> Sequence[ModelDescriptor]:
        try:
            async with asyncio.timeout(_SURVEY_SECONDS):
                return await self._application.survey_models(provider)
        except (ConverseError, TimeoutError):  # list the others
            return ()

    async def close(self) -> None:
        """Close the connections."""
        await self._application.close()


def _is_address(name: str) -> bool:
    """Return whether a name is a valid model name or alias."""
    try:
        ModelAddress.parse(name)
    except ConfigurationError:
        return ":" not in name and bool(name.strip())  # a model without a provider, or an alias
    return True
