"""What a plugin says of models: providers of them, their attributes, and transports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.clocks import Clock
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.secrets import Settings
from vibe_llms.plugins.specification.users import Consent, Progress

if TYPE_CHECKING:  # types only: this module lies below those that it speaks of
    from vibe_llms.providers.budgets import Budgets
    from vibe_llms.providers.interfaces import Provider
    from vibe_llms.wire.exchanges import Timeouts, Transport

ANY_NAME: Final = "*"
"""The name of a specification whose factory makes what it makes under any configured name."""


def _find_nowhere(name: str) -> Path:
    return Path()


@frozen(kw_only=True)
class ProviderContext:
    """What a provider is given when it is made.

    Attributes:
        name: Its name, as configured.
        settings: The keys of its table in the configuration besides ``module``, ``package``
            and ``enabled``: plain TOML values. The provider checks them.
        data_directory: A directory of its own for what must last. It may not exist yet.
        cache_directory: A directory of its own for what may vanish at any time. It may not
            exist yet.
        consent: To be asked before anything is fetched or installed.
        progress: To be told about work that takes longer than a second.
        limits: Bound what may wait or grow; hand them to the models.
        clock: For whatever waits.
        produce_attributes: Gives the integrator of model attributes for this provider: its
            own data, the specifications of :func:`survey_model_attributes` for its name, and
            the user's overrides.
        find_base: Gives the directory from which the path in a setting is meant: that of the file
            in which the setting of this name was written.
        survey_transports: Names the transports that plugins have (:func:`survey_transports`);
            loads them, so it is called only where a transport is chosen that does not ship.
        budgets: Keeps what other processes use of the same vendor, where any share it.
    """

    name: str
    settings: Mapping[str, Any] = attrs.field(factory=dict, converter=Settings)
    data_directory: Path
    cache_directory: Path
    consent: Consent
    progress: Progress
    limits: Limits = attrs.field(factory=Limits)
    clock: Clock = attrs.field(factory=Clock)
    produce_attributes: Callable[[], Any]
    find_base: Callable[[str], Path] = _find_nowhere
    survey_transports: Callable[[], Sequence[TransportSpecification]] = tuple
    budgets: Budgets | None = None


@frozen
class ProviderSpecification:
    """A provider that a plugin has.

    Attributes:
        name: What the user calls it: the ``NAME`` of ``[providers.NAME]`` and of
            ``NAME:model``. It must be the name under which the configuration names the
            plugin's module; :data:`ANY_NAME` stands for all such names, and the factory reads
            the one that is meant from its context.
        summary: What it is, in one line for ``vibe providers``.
        factory: Makes the provider from its context. Called once per plugin manager, when
            the provider is first used. Heavy libraries are imported in here or later.
    """

    name: str
    summary: str
    factory: Callable[[ProviderContext], Provider]


@frozen
class ModelAttributesSpecification:
    """A directory of TOML files that describe the models of a provider.

    Attributes:
        provider: Whose models are described. :data:`ANY_NAME` stands for all names under which
            the plugin's module is configured and of which nothing else is known.
        directory: Holds ``attributes.toml`` and, where there are any, ``model-families/``
            and ``models/``, as the folders of ``data/providers`` do.
    """

    provider: str
    directory: Path


@frozen(kw_only=True)
class TransportContext:
    """What a transport is given when it is made.

    Attributes:
        provider: Whose requests it carries, by the name in the configuration.
        limits: Bound what requests and answers may hold.
        timeouts: As the provider's table says; for requests that bring none of their own.
        produce_direct: Makes the transport ``direct`` with the table's proxies and certificates,
            for one that adds something and passes the rest on. Who calls it closes it.
    """

    provider: str
    limits: Limits
    timeouts: Timeouts
    produce_direct: Callable[[], Transport]


@frozen
class TransportSpecification:
    """A way by which the requests of a provider go out and their answers come back.

    Attributes:
        name: What ``transport`` in ``[providers.NAME]`` calls it. One that ships (``direct``,
            ``sdk``) cannot be replaced.
        summary: What it does, in one line.
        factory: Makes it from its context; called once for each client, before its first request.
            It is closed with the client. Heavy libraries are imported in here or later.
        plugin: The plugin that has it, for errors; filled in where it is found.
    """

    name: str
    summary: str
    factory: Callable[[TransportContext], Transport]
    plugin: str = ""
