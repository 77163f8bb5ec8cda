"""Apply the settings of the gateway's file, also after it has changed."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vibe_llms.daemons.gateway.api_description import describe_routes
from vibe_llms.daemons.gateway.faces import batches
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.gateway.settings import GatewaySettings, read_settings
from vibe_llms.daemons.routes import Route
from vibe_llms.daemons.service import Service
from vibe_llms.exceptions import ConfigurationError, Finding, UnknownNameError

if TYPE_CHECKING:
    from vibe_llms.application import Application
    from vibe_llms.daemons.gateway.routing.router import TableRouter

_NEEDING_RESTART: Final = (
    "server",
    "limits",
    "responses",
    "authorizer",
    "hosts",
    "page",
    "log_contents",
)
"""Settings that a reload does not apply."""

_LOGGER: Final = logging.getLogger("vibe_llms.daemons.gateway")


def find_provider(application: Application, address: str) -> str:
    """Return the provider of a model. Raises UnknownNameError."""
    provider = application.resolve_address(address).provider
    known = tuple(application.configuration.providers)
    if provider not in known:
        raise UnknownNameError(kind="provider", name=provider, known=known)
    return provider


class Tables:
    """Applies the settings of the gateway's file: routes, the router and its targets.

    Args:
        path: The file.
        application: Has the providers.
        gateway: Receives the router.
        needs_models: Refuse a file without models, which would allow all models.

    Attributes:
        settings: The settings in use.

    Raises:
        ConfigurationError: The file has mistakes; the error lists every mistake.
    """

    def __init__(
        self,
        path: Path,
        application: Application,
        gateway: Gateway,
        *,
        needs_models: bool = False,
    ) -> None:
        self._path = path
        self._needs_models = needs_models
        self._application, self._gateway = application, gateway
        self._find_provider = partial(find_provider, application)
        self._router: TableRouter | None = None
        self._service: Service | None = None
        self._routes: tuple[Route, ...] = ()
        self.settings = self._read()
        self._apply()

    def reload(self) -> None:
        """Read the file again; keep the previous settings if it has mistakes.

        Requests under way are not affected.
        """
        try:
            settings = self._read()
        except ConfigurationError as error:
            _LOGGER.error("Invalid gateway file, the previous settings stay in use: %s", error)
            return
        previous, self.settings = self.settings, settings
        for name in (
            "server",
            "limits",
            "responses",
            "authorizer",
            "hosts",
            "page",
            "log_contents",
        ):
            if getattr(previous, name) != getattr(settings, name):
                _LOGGER.warning("Restart the gateway to apply the changes to %s in its file", name)
        self._apply()
        _LOGGER.info("Reloaded the gateway's file")

    def serve(self, service: Service) -> None:
        """Add the routes of the tables' ``passthrough`` paths to a service."""
        self._service, self._routes = service, service.routes
        self._apply()

    def _read(self) -> GatewaySettings:
        settings = read_settings(self._path, self._find_provider)
        if self._needs_models and not settings.models:
            finding = Finding(
                place=str(self._path),
                message="It has no models left, which would allow clients to use all models.",
            )
            remedy = "Write [models] tables. To allow all models, restart the gateway."
            raise ConfigurationError(findings=(finding,), remedy=remedy)
        return settings

    def _apply(self) -> None:
        self._needs_models = self._needs_models or bool(self.settings.models)
        models, gateway = self.settings.models, self._gateway
        self._application.restrict(
            target.model
            for model in models.values()
            for target in (*model.targets, *model.fallback)
            if target.model not in models
        )
        if self._service is not None:
            passing = self._survey_passing()
            replaced = {(route.method, route.pattern) for route in passing}
            # A path in a table's passthrough takes precedence over its translation, and over all of
            # the gateway's own files or batches.
            prefixes = {batches.find_prefix(route.pattern) for route in passing} - {""}
            routes = [
                route
                for route in self._routes
                if (route.method, route.pattern) not in replaced
                and batches.find_prefix(route.pattern) not in prefixes
            ]
            self._service.adopt_routes((*routes, *passing))
        if not models:  # one upstream for each name, as without a file
            gateway.router, gateway.upstreams.models = None, {}
            return
        if self._router is None:
            from vibe_llms.daemons.gateway.routing.router import TableRouter

            self._router = TableRouter(models, self._find_provider)
        else:
            self._router.adopt(models)
        gateway.router, gateway.upstreams.models = self._router, self._router.survey_addresses()

    def _survey_passing(self) -> list[Route]:
        """Return the routes of all paths that a table or a target passes through."""
        allowed: dict[str, None] = {}  # an ordered set
        for model in self.settings.models.values():
            for paths in (model.passthrough, *(each.passthrough for each in model.targets)):
                allowed |= dict.fromkeys(paths or ())
        if not allowed:
            return []
        from vibe_llms.daemons.gateway.faces.calls import is_call
        from vibe_llms.daemons.gateway.routing.extra_paths import produce_routes

        fixed = {  # paths that a table cannot replace
            (route.method, route.pattern)
            for route in self._routes
            if not is_call(route.pattern) and not batches.find_prefix(route.pattern)
        }
        routes = produce_routes(self._gateway, self._access_router, allowed)
        passing = [route for route in routes if (route.method, route.pattern) not in fixed]
        return describe_routes(passing, needs_key=self._gateway.needs_key)

    def _access_router(self) -> TableRouter:
        assert self._router is not None
        return self._router
