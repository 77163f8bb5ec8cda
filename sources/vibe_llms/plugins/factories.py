"""Calls of plugins' factories, with a check of their results."""

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
    what = f"approver {specification.name!r}"
    approver = _call(entry, what, specification.factory, context)
    if callable(getattr(approver, "approve", None)):
        return approver
    raise _describe_misfit(entry, what, approver, "which lacks approve")


def make_authorizer(
    entry: PluginEntry, specification: AuthorizerSpecification, context: AuthorizerContext
) -> Authorizer:
    """Make an authorizer, as :func:`make_provider` does a provider."""
    from vibe_llms.plugins.specification.daemons import Authorizer

    what = f"authorizer {specification.name!r}"
    authorizer = _call(entry, what, specification.factory, context)
    if lacks := _find_lacks(authorizer, Authorizer):
        lack = f"which is not an authorizer: it lacks {', '.join(lacks)}"
        raise _describe_misfit(entry, what, authorizer, lack)
    return authorizer


def make_store(
    entry: PluginEntry, specification: StoreSpecification, context: StoreContext
) -> ConversationStore:
    """Make a store, as :func:`make_provider` does a provider; its errors name the plugin."""
    from vibe_llms.conversations.stores.defaults import StoreDefaults
    from vibe_llms.conversations.stores.interfaces import ContentStore, ConversationStore
    from vibe_llms.plugins.plugged import PluggedStore

    what = f"store {specification.name!r} of [plugins.{entry.name}]"
    remedy = (
        "Correct its table, or report this to the plugin's author; "
        f"store = {DIRECTORY_STORE!r} stores conversations in files again."
    )
    store = _call(entry, what, specification.factory, context, remedy)
    lacks = _find_lacks(store, ConversationStore)
    if "contents" not in lacks:
        contents = _call(entry, what, lambda store: store.contents, store, remedy)
        lacks += [f"contents.{name}" for name in _find_lacks(contents, ContentStore)]
    if not lacks:
        return cast("ConversationStore", PluggedStore(store, entry.name, what, remedy))
    optional = [name for name in lacks if name in vars(StoreDefaults)]
    needed = [name for name in lacks if name not in optional]
    lack = f"which is not a store: it lacks {', '.join(needed + optional)}"
    if optional:
        lack += f" (vibe_llms.conversations.StoreDefaults, inherited, has {', '.join(optional)})"
    raise _describe_misfit(entry, what, store, lack, remedy)


def _find_lacks(made: object, protocol: type) -> list[str]:
    """Return the members of a protocol that an object lacks."""
    # By name and not by isinstance, which cannot report missing members.
    wanted = [name for name in vars(protocol) if not name.startswith("_")]
    # Statically: reading a property would run it.
    return [name for name in wanted if inspect.getattr_static(made, name, None) is None]


def _call(
    entry: PluginEntry, what: str, factory: Callable[[_C], _T], context: _C, remedy: str = ""
) -> _T:
    """Call a factory; name the plugin in a foreign error."""
    try:
        return factory(context)
    except ConverseError:
        raise
    except (Exception, SystemExit) as error:
        raise PluginError(
            plugin=entry.name,
            detail=f"The {what} ({entry.module}) cannot be created: {describe_error(error)}.",
            remedy=remedy,
        ) from error


def _describe_misfit(
    entry: PluginEntry, what: str, made: object, lack: str, remedy: str = ""
) -> PluginError:
    return PluginError(
        plugin=entry.name,
        detail=f"The factory of the {what} ({entry.module}) returned {type(made).__name__}, "
        f"{lack}.",
        remedy=remedy,
    )
