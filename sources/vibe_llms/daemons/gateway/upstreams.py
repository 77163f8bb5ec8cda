"""From the name that a client uses to who is asked."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeGuard

from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    RequestError,
    Stage,
    TrustError,
    UnknownNameError,
)
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.providers.remote_models import RemoteModel

if TYPE_CHECKING:
    from vibe_llms.application import Application
    from vibe_llms.providers.interfaces import ConverserModel, ModelDescriptor


_LOGGER: Final = logging.getLogger("vibe_llms.daemons.gateway")
_SURVEY_SECONDS: Final = 10
"""So long a vendor has to list its models."""


@frozen
class Upstream:
    """Who is asked.

    Attributes:
        model: Answers.
        strict: A loss in the translation is an error.
    """

    model: ConverserModel
    strict: bool = False

    @property
    def address(self) -> str:
        """The model, as ``provider:name``."""
        descriptor = self.model.descriptor
        return f"{descriptor.provider}:{descriptor.name}"

    @property
    def name(self) -> str:
        """What the vendor calls the model."""
        return self.model.descriptor.name


def can_pass_through(model: object, protocol: str) -> TypeGuard[RemoteModel]:
    """Tells whether what clients of a protocol ask can go to a model's vendor as it is."""
    return isinstance(model, RemoteModel) and model.protocol == protocol


class Upstreams:
    """Finds upstreams by the addresses and aliases of the configuration.

    Args:
        application: Has the providers.
        models: The names that clients may use, and what they stand for; where there are none, any
            name that the configuration understands.

    Attributes:
        models: The same; may be replaced at any time.
    """

    def __init__(self, application: Application, models: Mapping[str, str] | None = None) -> None:
        self._application = application
        self.models = dict(models or {})

    async def access(self, name: str) -> Upstream:
        """Returns who is asked.

        Args:
            name: Empty for the configured model.

        Raises:
            RequestError: It is empty, and no model is configured that could answer then.
            UnknownNameError: Nothing of that name is here.
            ConverseError: The provider cannot be loaded.
        """
        if not name:
            return await self._access_default()
        address = name
        if self.models:
            if name not in self.models:
                raise UnknownNameError(
                    kind="model", name=name, known=tuple(self.models), remedy="GET /v1/models."
                )
            address = self.models[name]
        try:
            return Upstream(await self._application.access_model(address))
        except UnknownNameError as error:
            if not error.kind.startswith("provider"):  # a provider says best what it has
                raise
            # Of providers a client knows nothing: to it, it is a model that is not there.
            raise UnknownNameError(kind="model", name=name, remedy="GET /v1/models.") from None
        except TrustError as error:  # it would have to be fetched, which is the operator's to do
            _LOGGER.warning("%r cannot be asked: %s", name, error)
            raise UnknownNameError(kind="model", name=name, remedy="GET /v1/models.") from error
        except ConfigurationError:
            if not self.models and not _is_address(name):
                raise UnknownNameError(
                    kind="model", name=name, known=(), remedy="GET /v1/models."
                ) from None
            raise

    async def _access_default(self) -> Upstream:
        cause: ConverseError | None = None
        if not self.models:
            try:
                return Upstream(await self._application.access_model(""))
            except ConverseError as error:
                cause = error
        raise RequestError(
            path="model",
            detail="The request names no model, and there is none here that answers then.",
            remedy="Name one of those that GET /v1/models lists.",
            stage=Stage.FRAME,
        ) from cause

    async def reach(self, address: str, *, strict: bool = False) -> Upstream:
        """Returns a model as an upstream, whether or not clients may name it. Raises likewise."""
        return Upstream(await self._application.access_model(address), strict)

    async def list_names(self) -> list[str]:
        """Returns the names that clients may use, as far as they are known."""
        if self.models:
            return sorted(self.models)
        configuration = self._application.configuration
        names = {configuration.model: None} | dict.fromkeys(configuration.aliases)
        return list(names | dict.fromkeys(map(str, await self._survey_all())))

    async def list_models(self) -> dict[str, ModelDescriptor]:
        """Returns what is known of the models, by the names that clients may use."""
        if self.models:
            return {
                name: (await self.access(name)).model.descriptor for name in sorted(self.models)
            }
        models = {str(model): model for model in await self._survey_all()}
        with contextlib.suppress(ConverseError):  # as where its weights are not here
            default = (await self.access("")).model.descriptor
            models = {str(default): default} | models
        return models

    async def _survey_all(self) -> list[ModelDescriptor]:
        surveys = await asyncio.gather(*map(self._survey, await self._select_ready()))
        return [model for survey in surveys for model in survey]

    async def _select_ready(self) -> list[str]:
        """Returns the providers that lack nothing."""
        from vibe_llms.plugins.wants import survey_wants

        plugins = self._application.plugins
        providers = list(self._application.configuration.providers)
        wants = await asyncio.to_thread(survey_wants, plugins, providers)
        return [
            name
            for name, lacking in wants.items()
            if lacking.error is None and not any(need.prevents for need in lacking.needs)
        ]

    async def _survey(self, provider: str) -> Sequence[ModelDescriptor]:
        try:
            async with asyncio.timeout(_SURVEY_SECONDS):
                return await self._application.survey_models(provider)
        except (ConverseError, TimeoutError):  # the others can be listed nevertheless
            return ()

    async def close(self) -> None:
        """Closes the connections."""
        await self._application.close()


def _is_address(name: str) -> bool:
    """Tells whether a name of a client's could be a model's at all."""
    try:
        ModelAddress.parse(name)
    except ConfigurationError:
        return ":" not in name and bool(name.strip())  # a model's alone, or an alias
    return True
