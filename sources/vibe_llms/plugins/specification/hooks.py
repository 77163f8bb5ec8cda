"""The hooks themselves: when each is called, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from vibe_llms.plugins.markers import hookspec
from vibe_llms.plugins.specification.authorizers import AuthorizerSpecification
from vibe_llms.plugins.specification.conversations import (
    ExporterSpecification,
    ImporterSpecification,
    StoreSpecification,
)
from vibe_llms.plugins.specification.flows import PredicateSpecification
from vibe_llms.plugins.specification.models import (
    ModelAttributesSpecification,
    ProviderSpecification,
    TransportSpecification,
)
from vibe_llms.plugins.specification.runs import (
    ApproverSpecification,
    EnsembleSpecification,
    ListenerSpecification,
    ReactorsSpecification,
)
from vibe_llms.plugins.specification.users import (
    CommandSpecification,
)


@hookspec
def survey_providers() -> Sequence[ProviderSpecification]:  # type: ignore[empty-body]
    """Names the providers that the plugin has.

    Called:
        When a provider of the plugin is first used, and when all plugins are checked: once
        per process in either case. Never to list what is configured.

    Returns:
        A list or tuple, perhaps empty. Among them one for each ``[providers.NAME]`` whose
        ``module`` is the plugin's, or one for :data:`ANY_NAME`.
    """


@hookspec
def survey_ensembles() -> Sequence[EnsembleSpecification]:  # type: ignore[empty-body]
    """Names the ensembles of invocables that the plugin has.

    Called:
        When an ensemble of the plugin is first wanted, and when all plugins are checked: once
        per process in either case. Never to list what is configured.

    Returns:
        A list or tuple, perhaps empty. Among them one for each ``[ensembles.NAME]`` whose
        ``module`` is the plugin's, or one for :data:`ANY_NAME`.
    """


@hookspec
def survey_model_attributes() -> Sequence[ModelAttributesSpecification]:  # type: ignore[empty-body]
    """Names directories with attributes of the models of the plugin's own providers.

    Called:
        Once per process, when the attributes of a model are first needed.

    Returns:
        A list or tuple, perhaps empty. Later directories win over earlier ones, and the
        user's ``[[models]]`` over all. What is said of a provider that the configuration
        does not give to this plugin's module has no effect.
    """


@hookspec
def survey_reactors() -> Sequence[ReactorsSpecification]:  # type: ignore[empty-body]
    """Names reactors that listen to every conversation.

    Called:
        Once per process, before the first turn; of a plugin named in ``[providers.NAME]`` before
        the first turn after that provider has been loaded.

    Returns:
        A list or tuple, perhaps empty.
    """


@hookspec
def survey_listeners() -> Sequence[ListenerSpecification]:  # type: ignore[empty-body]
    """Names what listens to every run of an engine: to its steps, its calls, its approvals.

    Called:
        Once per process, before the first run; of plugins that ``[plugins.NAME]`` names.

    Returns:
        A list or tuple, perhaps empty.
    """


@hookspec
def survey_approvers() -> Sequence[ApproverSpecification]:  # type: ignore[empty-body]
    """Names who can decide in the user's place which calls are executed.

    Called:
        Once per process, when the configuration or ``--approver`` names an approver and a model
        has tools; of plugins that ``[plugins.NAME]`` names.

    Returns:
        A list or tuple, perhaps empty. Of several of one name, the first is meant.
    """


@hookspec
def survey_transports() -> Sequence[TransportSpecification]:  # type: ignore[empty-body]
    """Names transports, for tables of providers to choose: ``transport = "name"``.

    Called:
        Once per process, when a provider is used or checked that chooses a transport which does
        not ship; of plugins that ``[plugins.NAME]`` names.

    Returns:
        A list or tuple, perhaps empty. Where several have a name, the first one is meant.
    """


@hookspec
def survey_stores() -> Sequence[StoreSpecification]:  # type: ignore[empty-body]
    """Names places that keep conversations, for the setting ``store`` to choose.

    Called:
        Once per process, when conversations are read or written and the configuration chooses
        a store that does not ship; of plugins that ``[plugins.NAME]`` names.

    Returns:
        A list or tuple, perhaps empty. Where several have a name, the first one is meant.
    """


@hookspec
def survey_commands() -> Sequence[CommandSpecification]:  # type: ignore[empty-body]
    """Names commands to be added to ``vibe``.

    Called:
        Once per process, when ``vibe`` is given a command that does not ship, or is asked
        for all of them.

    Returns:
        A list or tuple, perhaps empty.
    """


@hookspec
def survey_exporters() -> Sequence[ExporterSpecification]:  # type: ignore[empty-body]
    """Names forms in which conversations can be written.

    Called:
        Once per process, when a conversation is exported; of plugins that ``[plugins.NAME]``
        names.

    Returns:
        A list or tuple, perhaps empty.
    """


@hookspec
def survey_importers() -> Sequence[ImporterSpecification]:  # type: ignore[empty-body]
    """Names forms in which conversations of elsewhere can be read.

    Called:
        Once per process, when conversations are imported; of plugins that ``[plugins.NAME]``
        names.

    Returns:
        A list or tuple, perhaps empty. Where several recognize a file, the first one reads it.
    """


@hookspec
def survey_predicates() -> Sequence[PredicateSpecification]:  # type: ignore[empty-body]
    """Names predicates, for task files to choose categories and judge goals by.

    Called:
        Once per process, when a task is run or checked that names a predicate; of plugins that
        ``[plugins.NAME]`` names.

    Returns:
        A list or tuple, perhaps empty. Where several have a name, the first one is meant.
    """


@hookspec
def survey_authorizers() -> Sequence[AuthorizerSpecification]:  # type: ignore[empty-body]
    """Names who can say who may ask a daemon what, for its setting ``authorizer`` to choose.

    Called:
        Once per process, when a daemon starts whose settings name an authorizer; of plugins that
        ``[plugins.NAME]`` names.

    Returns:
        A list or tuple, perhaps empty. Where several have a name, the first one is meant.
    """


HOOKS: Final[Mapping[str, type[Any]]] = {
    "survey_providers": ProviderSpecification,
    "survey_ensembles": EnsembleSpecification,
    "survey_reactors": ReactorsSpecification,
    "survey_listeners": ListenerSpecification,
    "survey_transports": TransportSpecification,
    "survey_approvers": ApproverSpecification,
    "survey_stores": StoreSpecification,
    "survey_commands": CommandSpecification,
    "survey_model_attributes": ModelAttributesSpecification,
    "survey_exporters": ExporterSpecification,
    "survey_importers": ImporterSpecification,
    "survey_predicates": PredicateSpecification,
    "survey_authorizers": AuthorizerSpecification,
}
"""From each hook to what the list is made of that it returns."""

ALWAYS_IN_USE: Final[frozenset[type[Any]]] = frozenset(
    {ApproverSpecification, AuthorizerSpecification, ExporterSpecification}
    | {ImporterSpecification, ListenerSpecification, PredicateSpecification}
    | {StoreSpecification, TransportSpecification}
)
"""Of which only the plugins of ``[plugins]`` are asked."""
