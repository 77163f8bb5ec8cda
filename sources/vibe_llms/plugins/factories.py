"""Calls of plugins' factories; each checks the result and names the plugin in errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from vibe_llms.configuration.classes import PluginEntry
from vibe_llms.configuration.definitions import DIRECTORY_STORE
from vibe_llms.exceptions import ConverseError, PluginError
from vibe_llms.plugins.loading import describe_error

if TYPE_CHECKING:
    from vibe_llms.conversations.stores.interfaces import ConversationStore
    from vibe_llms.invocables.approvals import DeferringApprover
    from vibe_llms.invocables.ensembles import Ensemble
    from vibe_llms.plugins.specification.authorizers import AuthorizerSpecification
    from vibe_llms.plugins.specification.conversations import StoreContext, StoreSpecification
    from vibe_llms.plugins.specification.daemons import Authorizer, AuthorizerContext
    from vibe_llms.plugins.specification.guards import Guard, GuardContext, GuardSpecification
    from vibe_llms.plugins.specification.models import ProviderContext, ProviderSpecification
    from vibe_llms.plugins.specification.runs import (
        ApproverContext,
        ApproverSpecification,
        EnsembleContext,
        EnsembleSpecification,
    )
    from vibe_llms.providers.interfaces import Provider


_C = TypeVar("_C")
_T = TypeVar("_T")


def make_provider(
    entry: PluginEntry, specification: ProviderSpecification, context: ProviderContext
) -> Provider:
    """Make a provider. Raises PluginError for another object, or the factory's own error."""
    provider = _call(entry, f"provider {entry.name!r}", specification.factory, context)
    if callable(getattr(provider, "produce_client", None)):
        return provider
    raise _describe_misfit(
        entry, f"provider {entry.name!r}", provider, "which lacks produce_client"
    )


def make_ensemble(
    entry: PluginEntry, specification: EnsembleSpecification, context: EnsembleContext
) -> Ensemble:
    """Make an ensemble, as :func:`make_provider` does a provider."""
    from vibe_llms.invocables.ensembles import Ensemble

    ensemble = _call(entry, f"ensemble {entry.name!r}", specification.factory, context)
    if isinstance(ensemble, Ensemble):
        return ensemble
    raise _describe_misfit(entry, f"ensemble {entry.name!r}", ensemble, "which is not an ensemble")


def make_approver(
    entry: PluginEntry, specification: ApproverSpecification, context: ApproverContext
) -> DeferringApprover:
    """Make an approver, as :func:`make_provider` does a provider."""
    description = f"approver {specification.name!r}"
    approver = _call(entry, description, specification.factory, context)
    if callable(getattr(approver, "approve", None)):
        return approver
    raise _describe_misfit(entry, description, approver, "which lacks approve")


def make_authorizer(
    entry: PluginEntry, specification: AuthorizerSpecification, context: AuthorizerContext
) -> Authorizer:
    """Make an authorizer, as :func:`make_provider` does a provider."""
    from vibe_llms.plugins.specification.daemons import Authorizer

    description = f"authorizer {specification.name!r}"
    authorizer = _call(entry, description, specification.factory, context)
    if missing := _find_missing_members(authorizer, Authorizer):
        problem = f"which is not an authorizer: it lacks {', '.join(missing)}"
        raise _describe_misfit(entry, description, authorizer, problem)
    return authorizer


def make_guard(
    entry: PluginEntry, specification: GuardSpecification, context: GuardContext
) -> Guard:
    """Make a guard, as :func:`make_provider` does a provider."""
    from vibe_llms.plugins.specification.guards import Guard

    description = f"guard {context.name!r} of the kind {specification.name!r}"
    guard = _call(entry, description, specification.factory, context)
    if missing := _find_missing_members(guard, Guard):
        problem = f"which is not a guard: it lacks {', '.join(missing)}"
        raise _describe_misfit(entry, description, guard, problem)
    return guard


def make_store(
    entry: PluginEntry, specification: StoreSpecification, context: StoreContext
) -> ConversationStore:
    """Make a store, as :func:`make_provider` does a provider; its errors name the plugin."""
    from vibe_llms.conversations.stores.defaults import StoreDefaults
    from vibe_llms.conversations.stores.interfaces import ContentStore, ConversationStore
    from vibe_llms.plugins.plugged import PluggedStore

    description = f"store {specification.name!r} of [plugins.{entry.name}]"
    remedy = (
        "Correct its table, or report this to the plugin's author; "
        f"store = {DIRECTORY_STORE!r} stores conversations in files again."
    )
    store = _call(entry, description, specification.factory, context, remedy)
    missing = _find_missing_members(store, ConversationStore)
    if "contents" not in missing:
        contents = _call(entry, description, lambda store: store.contents, store, remedy)
        missing += [f"contents.{name}" for name in _find_missing_members(contents, ContentStore)]
    if not missing:
        return cast("ConversationStore", PluggedStore(store, entry.name, description, remedy))
    optional = [name for name in missing if name in vars(StoreDefaults)]
    needed = [name for name in missing if name not in optional]
    problem = f"which is not a store: it lacks {', '.join(needed + optional)}"
    if optional:
        problem += f" (vibe_llms.conversations.StoreDefaults, inherited, has {', '.join(optional)})"
    raise _describe_misfit(entry, description, store, problem, remedy)


def _find_missing_members(value: object, protocol: type) -> list[str]:
    """Return the members of a protocol that an object lacks."""
    # Member by member, as isinstance does not report which ones are missing.
    members = [name for name in vars(protocol) if not name.startswith("_")]
    # Statically: reading a property would run it.
    return [name for name in members if inspect.getattr_static(value, name, None) is None]


def _call(
    entry: PluginEntry, description: str, factory: Callable[[_C], _T], context: _C, remedy: str = ""
) -> _T:
    """Call a factory; convert a foreign error to one that names the plugin."""
    try:
        return factory(context)
    except ConverseError:
        raise
    except (Exception, SystemExit) as error:
        raise PluginError(
            plugin=entry.name,
            detail=f"The {description} ({entry.module}) cannot be created: "
            f"{describe_error(error)}.",
            remedy=remedy,
        ) from error


def _describe_misfit(
    entry: PluginEntry, description: str, value: object, problem: str, remedy: str = ""
) -> PluginError:
    return PluginError(
        plugin=entry.name,
        detail=f"The factory of the {description} ({entry.module}) returned "
        f"{type(value).__name__}, {problem}.",
        remedy=remedy,
    )
