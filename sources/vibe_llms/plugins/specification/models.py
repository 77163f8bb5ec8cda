"""Specifications of models: providers, their attributes, and transports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.clocks import Clock
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.secrets import Settings

if TYPE_CHECKING:  # types only: this module is below theirs
    from vibe_llms.messages.vendor_files import VendorFileNotes
    from vibe_llms.plugins.specification.users import Consent, Progress
    from vibe_llms.providers.interfaces import Provider
    from vibe_llms.providers.shared_limits import Budgets
    from vibe_llms.wire.exchanges import Timeouts, Transport

ANY_NAME: Final = "*"
"""Name of a specification that applies to any configured name."""


def _use_working_directory(name: str) -> Path:
    return Path()


def _access_nothing() -> None:
    return None


@frozen(kw_only=True)
class ProviderContext:
    """Context for making a provider.

    Attributes:
        name: Its name, as configured.
        settings: The keys of its table in the configuration except ``module``, ``package`` and
            ``enabled``: plain TOML values. The provider validates them.
        data_directory: Its directory for permanent data. It may not exist yet.
        cache_directory: Its directory for data that may be deleted at any time. It may not exist
            yet.
        consent: Must be asked before anything is downloaded or installed.
        progress: Must be informed about operations that take longer than a second.
        limits: Limits of waiting and sizes; pass them to the models.
        clock: The clock for timeouts.
        produce_attributes: Returns the integrator of model attributes for this provider: its own
            data, the specifications of :func:`survey_model_attributes` for its name, and the user's
            overrides.
        find_base: Returns the directory for a relative path in a setting: that of the file which
            contains the setting of this name.
        survey_transports: Returns the transports of plugins (:func:`survey_transports`); loads
            them, so call it only if the chosen transport is not shipped.
        access_vendor_files: Returns the notes of the store about contents that vendors have, so
            that a content is uploaded once; ``None`` without a store. Opens the store, so call it
            when it is needed.
        budgets: Rate limits that are shared with other processes; ``None`` if they are not shared.
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
    find_base: Callable[[str], Path] = _use_working_directory
    survey_transports: Callable[[], Sequence[TransportSpecification]] = tuple
    access_vendor_files: Callable[[], VendorFileNotes | None] = _access_nothing
    budgets: Budgets | None = None


@frozen
class ProviderSpecification:
    """A provider of a plugin.

    Attributes:
        name: Its name: the ``NAME`` of ``[providers.NAME]`` and of ``NAME:model``. It must be the
            name under which the configuration names the plugin's module; :data:`ANY_NAME` stands
            for all such names, and the factory reads the actual one from its context.
        summary: Its description, in one line for ``vibe providers``.
        factory: Makes the provider from its context. Called once per plugin manager, when the
            provider is first used. Import heavy libraries in the factory or later.
    """

    name: str
    summary: str
    factory: Callable[[ProviderContext], Provider]


@frozen
class ModelAttributesSpecification:
    """A directory of TOML files that describe the models of a provider.

    Attributes:
        provider: The provider of the models. :data:`ANY_NAME` stands for all names under which the
            plugin's module is configured and which have no other description.
        directory: Contains ``attributes.toml`` and, optionally, ``model-families/`` and
            ``models/``, as the folders of ``data/providers`` do.
    """

    provider: str
    directory: Path


@frozen(kw_only=True)
class TransportContext:
    """Context for making a transport.

    Attributes:
        provider: The name of its provider in the configuration.
        limits: Limits of requests and answers.
        timeouts: Timeouts in the provider's table, for requests without their own.
        produce_direct: Makes the transport ``direct`` with the table's proxies and certificates,
            for a transport that wraps it. The caller closes it.
    """

    provider: str
    limits: Limits
    timeouts: Timeouts
    produce_direct: Callable[[], Transport]


@frozen
class TransportSpecification:
    """A transport for the requests of a provider and their answers.

    Attributes:
        name: Its name for ``transport`` in ``[providers.NAME]``. A shipped one (``direct``,
            ``sdk``) cannot be replaced.
        summary: Its description, in one line.
        factory: Makes it from its context; called once for each client, before its first request.
            It is closed with the client. Import heavy libraries in the factory or later.
        plugin: Its plugin, for errors; set when it is found.
    """

    name: str
    summary: str
    factory: Callable[[TransportContext], Transport]
    plugin: str = ""
