"""From a name in the file to the targets behind it, which outlive a new file."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial

from vibe_llms.clocks import Clock
from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.gateway.caching import ModelCache, may_keep, produce_answers
from vibe_llms.daemons.gateway.client_requests import ClientRequest, Face
from vibe_llms.daemons.gateway.gateway import Gateway, ensure_admitted
from vibe_llms.daemons.gateway.responses.storing import needs_storage
from vibe_llms.daemons.gateway.routing.fallback import FallbackChain
from vibe_llms.daemons.gateway.routing.settings import ModelSettings
from vibe_llms.daemons.gateway.routing.signatures import SignatureOrigins
from vibe_llms.daemons.gateway.routing.targets import Placement, Target, expand, plan
from vibe_llms.daemons.records import CallRecord
from vibe_llms.exceptions import UnknownNameError
from vibe_llms.plugins.specification.daemons import Grant
from vibe_llms.values import frozen


@frozen(kw_only=True)
class ModelRoute:
    """A name that clients use.

    Attributes:
        name: The name.
        settings: By the file.
        groups: Who answers, and then who else; see :func:`.targets.plan`.
        answers: What was answered before; ``None`` where nothing is kept and nobody waits.
    """

    name: str
    settings: ModelSettings
    groups: list[list[Target]]
    answers: ModelCache | None

    @property
    def is_mixed(self) -> bool:
        """Whether its targets belong to more than one provider."""
        return len({each.placement.provider for group in self.groups for each in group}) > 1


class TableRouter:
    """Answers requests as the tables of a file say.

    Args:
        models: The tables.
        find_provider: Returns the provider of an address.
        clock: Tells when it is.
        draw: Gives chances, from 0 to less than 1.

    Attributes:
        routes: By the names that clients use.
        seals: Where what one upstream alone understands came from.
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
        self.seals = SignatureOrigins()
        self.routes: dict[str, ModelRoute] = {}
        self._find_provider = find_provider
        self.adopt(models)

    def adopt(self, models: Mapping[str, ModelSettings]) -> None:
        """Lets other tables hold for the requests that come from now on."""
        known = {
            _name_target(target.placement): target
            for route in self.routes.values()
            for group in route.groups
            for target in group
        }
        self.routes = {name: self._produce(models, name, known) for name in models}

    def _produce(
        self,
        models: Mapping[str, ModelSettings],
        name: str,
        known: dict[tuple[str, str], Target],
    ) -> ModelRoute:
        groups = [
            [_access_target(placement, known) for placement in group]
            for group in expand(models, name, self._find_provider)
        ]
        settings, before = models[name], self.routes.get(name)
        # What others have answered is no answer of those who are asked now.
        kept = before.answers if before is not None and before.settings == settings else None
        answers = kept or produce_answers(settings, self.clock)
        return ModelRoute(name=name, settings=settings, groups=groups, answers=answers)

    def survey_addresses(self) -> dict[str, str]:
        """Returns the address of each name's first target."""
        return {
            name: route.groups[0][0].placement.settings.model for name, route in self.routes.items()
        }

    async def answer(
        self,
        gateway: Gateway,
        call: HttpCall,
        record: CallRecord,
        face: Face,
        asked: ClientRequest,
        grant: Grant | None,
    ) -> None:
        """Answers a request to a model. Raises ConverseError."""
        route = self.routes.get(asked.model)
        if route is None:
            known = tuple(self.routes)
            raise UnknownNameError(kind="model", name=asked.model, known=known)
        ensure_admitted(grant, asked.model)
        walk = FallbackChain(
            gateway=gateway,
            call=call,
            record=record,
            face=face,
            asked=asked,
            grant=grant,
            clock=self.clock,
            seals=self.seals if route.is_mixed else None,
        )
        run = partial(walk.run, plan(route.groups, self.draw))
        # A response that is kept has an id of its own, and belongs to whoever has asked.
        is_own = face.is_kept and needs_storage(asked)
        if route.answers is None or is_own or not may_keep(call):
            await run()
        else:
            await route.answers.serve(call, record, face, asked, run)


def _name_target(placement: Placement) -> tuple[str, str]:
    return placement.owner, placement.settings.model


def _access_target(placement: Placement, known: dict[tuple[str, str], Target]) -> Target:
    name = _name_target(placement)
    if (target := known.get(name)) is None:
        target = known[name] = Target(placement)
    elif target.placement != placement:
        target.adopt(placement)
    return target
