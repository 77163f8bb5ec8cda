"""Routing table: the targets of each model name. A reload keeps the state of the targets."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from vibe_llms.daemons.gateway.answer_cache import ModelCache, produce_answers
from vibe_llms.daemons.gateway.routing.settings import ModelSettings
from vibe_llms.daemons.gateway.routing.signatures import SignatureOrigins
from vibe_llms.daemons.gateway.routing.targets import (
    ConfiguredTarget,
    Target,
    TargetPlan,
    expand,
    order_targets,
)
from vibe_llms.exceptions import UnknownNameError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.clocks import Clock


@frozen(kw_only=True)
class ModelRoute:
    """A model as clients name it.

    Attributes:
        name: The name.
        settings: Table of the model in the file.
        groups: Targets of the model, then the targets of each fallback. All of a group are tried,
            in random order, before the next group; see :func:`.targets.order_targets`.
        answers: Cache of the model's answers; ``None`` if the table configures none.
    """

    name: str
    settings: ModelSettings
    groups: list[list[Target]]
    answers: ModelCache | None

    @property
    def is_mixed(self) -> bool:
        """True if the model's targets belong to several providers."""
        return len({each.configured.provider for group in self.groups for each in group}) > 1


class TableRouter:
    """Routing tables of the configuration file.

    Args:
        models: The tables.
        find_provider: Returns the provider of a model's address.
        clock: Time for circuits, caches and rate limits.
        draw: Returns a random number from 0 to less than 1.

    Attributes:
        routes: Models by the names that clients use.
        signatures: Origins of signatures, as only the provider that made a signature accepts it.
    """

    def __init__(
        self,
        models: Mapping[str, ModelSettings],
        find_provider: Callable[[str], str],
        *,
        clock: Clock | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.clock = clock or Clock()
        self.draw = draw
        self.signatures = SignatureOrigins()
        self.routes: dict[str, ModelRoute] = {}
        self._find_provider = find_provider
        self.adopt(models)

    def adopt(self, models: Mapping[str, ModelSettings]) -> None:
        """Replace the tables for new requests; targets that remain keep their state."""
        previous = {
            _name_target(target.configured): target
            for route in self.routes.values()
            for group in route.groups
            for target in group
        }
        self.routes = {name: self._produce(models, name, previous) for name in models}

    def _produce(
        self,
        models: Mapping[str, ModelSettings],
        name: str,
        previous: dict[tuple[str, str], Target],
    ) -> ModelRoute:
        groups = [
            [_access_target(configured, previous) for configured in group]
            for group in expand(models, name, self._find_provider)
        ]
        settings, before = models[name], self.routes.get(name)
        answers: ModelCache | None = None
        if before is not None and before.settings == settings:
            answers = before.answers
        if answers is None:  # with changed settings, other targets might answer differently
            answers = produce_answers(settings, self.clock)
        return ModelRoute(name=name, settings=settings, groups=groups, answers=answers)

    def survey_addresses(self) -> dict[str, str]:
        """Return the address of each name's first target."""
        return {
            name: route.groups[0][0].configured.settings.model
            for name, route in self.routes.items()
        }

    def plan(self, name: str) -> TargetPlan:
        """Return the targets for one request. Raises UnknownNameError."""
        route = self.routes.get(name)
        if route is None:
            raise UnknownNameError(kind="model", name=name, known=tuple(self.routes))
        return TargetPlan(
            targets=order_targets(route.groups, self.draw),
            clock=self.clock,
            answers=route.answers,
            signatures=self.signatures if route.is_mixed else None,
        )


def _name_target(configured: ConfiguredTarget) -> tuple[str, str]:
    return configured.owner, configured.settings.model


def _access_target(configured: ConfiguredTarget, targets: dict[tuple[str, str], Target]) -> Target:
    """Return the target of a configuration; add a target if the configuration is new."""
    name = _name_target(configured)
    target = targets.get(name)
    if target is None:
        target = targets[name] = Target(configured)
    elif target.configured != configured:
        target.adopt(configured)
    return target
