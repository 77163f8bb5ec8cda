"""The hooks: when each is called, and its return value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.plugins.markers import hookspec

if TYPE_CHECKING:  # a plugin imports those that it uses
    from vibe_llms.plugins.specification.authorizers import AuthorizerSpecification
    from vibe_llms.plugins.specification.conversations import (
        ExporterSpecification,
        ImporterSpecification,
        StoreSpecification,
    )
    from vibe_llms.plugins.specification.flows import PredicateSpecification
    from vibe_llms.plugins.specification.guards import GuardSpecification
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
    """Return the plugin's providers.

    Called:
        When a provider of the plugin is first used, and when all plugins are checked: once per
        process in either case. Never to list the configured plugins.

    Returns:
        A list or tuple, perhaps empty. Among them one for each ``[providers.NAME]`` whose
        ``module`` is the plugin's, or one for :data:`ANY_NAME`.
    """


@hookspec
def survey_ensembles() -> Sequence[EnsembleSpecification]:  # type: ignore[empty-body]
    """Return the plugin's ensembles of invocables.

    Called:
        When an ensemble of the plugin is first used, and when all plugins are checked: once per
        process in either case. Never to list the configured plugins.

    Returns:
        A list or tuple, perhaps empty. Among them one for each ``[ensembles.NAME]`` whose
        ``module`` is the plugin's, or one for :data:`ANY_NAME`.
    """


@hookspec
def survey_model_attributes() -> Sequence[ModelAttributesSpecification]:  # type: ignore[empty-body]
    """Return directories with attributes of the models of the plugin's own providers.

    Called:
        Once per process, when the attributes of a model are first needed.

    Returns:
        A list or tuple, perhaps empty. Later directories override earlier ones, and the
        user's ``[[models]]`` override all. Attributes of a provider that the configuration
        does not assign to this plugin's module have no effect.
    """


@hookspec
def survey_reactors() -> Sequence[ReactorsSpecification]:  # type: ignore[empty-body]
    """Return reactors that observe every conversation.

    Called:
        Once per process, before the first turn; in a plugin of ``[providers.NAME]``, before the
        first turn after that provider has been loaded.

    Returns:
        A list or tuple, perhaps empty.
    """


@hookspec
def survey_listeners() -> Sequence[ListenerSpecification]:  # type: ignore[empty-body]
    """Return listeners that observe every run of an engine: its steps, calls and approvals.

    Called:
        Once per process, before the first run; only in plugins of ``[plugins.NAME]``.

    Returns:
        A list or tuple, perhaps empty.
    """


@hookspec
def survey_approvers() -> Sequence[ApproverSpecification]:  # type: ignore[empty-body]
    """Return approvers, which can decide about calls instead of the user.

    Called:
        Once per process, when the configuration or ``--approver`` names an approver and a model
        has tools; only in plugins of ``[plugins.NAME]``.

    Returns:
        A list or tuple, perhaps empty. Of several with one name, the first is used.
    """


@hookspec
def survey_transports() -> Sequence[TransportSpecification]:  # type: ignore[empty-body]
    """Return transports, which tables of providers can choose: ``transport = "name"``.

    Called:
        Once per process, when a provider is used or checked that chooses a transport which is not
        shipped; only in plugins of ``[plugins.NAME]``.

    Returns:
        A list or tuple, perhaps empty. Of several with one name, the first is used.
    """


@hookspec
def survey_stores() -> Sequence[StoreSpecification]:  # type: ignore[empty-body]
    """Return stores of conversations, which the setting ``store`` can choose.

    Called:
        Once per process, when conversations are read or written and the configuration chooses a
        store that is not shipped; only in plugins of ``[plugins.NAME]``.

    Returns:
        A list or tuple, perhaps empty. Of several with one name, the first is used.
    """


@hookspec
def survey_commands() -> Sequence[CommandSpecification]:  # type: ignore[empty-body]
    """Return commands to be added to ``vibe``.

    Called:
        Once per process, when ``vibe`` gets a command that is not shipped, or lists all of them.

    Returns:
        A list or tuple, perhaps empty.
    """


@hookspec
def survey_exporters() -> Sequence[ExporterSpecification]:  # type: ignore[empty-body]
    """Return export formats of conversations.

    Called:
        Once per process, when a conversation is exported; only in plugins of ``[plugins.NAME]``.

    Returns:
        A list or tuple, perhaps empty.
    """


@hookspec
def survey_importers() -> Sequence[ImporterSpecification]:  # type: ignore[empty-body]
    """Return import formats of conversations from other programs.

    Called:
        Once per process, when conversations are imported; only in plugins of ``[plugins.NAME]``.

    Returns:
        A list or tuple, perhaps empty. If several recognize a file, the first one reads it.
    """


@hookspec
def survey_predicates() -> Sequence[PredicateSpecification]:  # type: ignore[empty-body]
    """Return predicates, for the categories and goals of task files.

    Called:
        Once per process, when a task is run or checked that names a predicate; only in plugins of
        ``[plugins.NAME]``.

    Returns:
        A list or tuple, perhaps empty. Of several with one name, the first is used.
    """


@hookspec
def survey_authorizers() -> Sequence[AuthorizerSpecification]:  # type: ignore[empty-body]
    """Return authorizers of a daemon's clients, which its setting ``authorizer`` can choose.

    Called:
        Once per process, when a daemon starts whose settings name an authorizer; only in plugins of
        ``[plugins.NAME]``.

    Returns:
        A list or tuple, perhaps empty. Of several with one name, the first is used.
    """


@hookspec
def survey_guards() -> Sequence[GuardSpecification]:  # type: ignore[empty-body]
    """Return kinds of guards, which tables ``[guards.NAME]`` can choose: ``kind = "name"``.

    Called:
        Once per process, when a model or a tool is first used and a table of guards names a kind
        that is not shipped; only in plugins of ``[plugins.NAME]``.

    Returns:
        A list or tuple, perhaps empty. Of several with one name, the first is used.
    """


HOOKS: Final[Mapping[str, str]] = {
    "survey_providers": "models.ProviderSpecification",
    "survey_ensembles": "runs.EnsembleSpecification",
    "survey_reactors": "runs.ReactorsSpecification",
    "survey_listeners": "runs.ListenerSpecification",
    "survey_transports": "models.TransportSpecification",
    "survey_approvers": "runs.ApproverSpecification",
    "survey_stores": "conversations.StoreSpecification",
    "survey_commands": "users.CommandSpecification",
    "survey_model_attributes": "models.ModelAttributesSpecification",
    "survey_exporters": "conversations.ExporterSpecification",
    "survey_importers": "conversations.ImporterSpecification",
    "survey_predicates": "flows.PredicateSpecification",
    "survey_authorizers": "authorizers.AuthorizerSpecification",
    "survey_guards": "guards.GuardSpecification",
}
"""Maps each hook to the type of its items, in a module of this package."""

ALWAYS_IN_USE: Final = frozenset(
    {"survey_approvers", "survey_authorizers", "survey_exporters", "survey_importers"}
    | {"survey_guards", "survey_listeners", "survey_predicates", "survey_stores"}
    | {"survey_transports"}
)
"""Hooks that are called only in plugins of ``[plugins]``."""


def access_kind(hook: str) -> type[Any]:
    """Return the type of a hook's items."""
    module, name = HOOKS[hook].split(".")
    kind: type[Any] = getattr(import_module(f"{__package__}.{module}"), name)
    return kind


def find_hook(kind: type[object]) -> str:
    """Return the hook whose items have this type."""
    type_name = f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"
    return next(hook for hook, item_type in HOOKS.items() if item_type == type_name)
