"""Authorizer with bearer keys and budgets.

Built-in keys are registered by the hook that plugins use for authorizers. ``texts`` generates and
checks keys, ``register`` is the file of keys, ``bounds`` checks their limits, ``charges`` and
``journal`` record durably what each request uses, ``ledger`` has the sums over all processes, and
``authorizer`` is the interface for a daemon. Must not know the protocols of clients, nor the
command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.plugins.markers import hook

if TYPE_CHECKING:
    from vibe_llms.plugins.specification.authorizers import AuthorizerSpecification
    from vibe_llms.plugins.specification.daemons import Authorizer, AuthorizerContext


@hook
def survey_authorizers() -> list[AuthorizerSpecification]:
    """Return the shipped authorizer."""
    from vibe_llms.plugins.specification.authorizers import AuthorizerSpecification

    return [AuthorizerSpecification("keys", "bearer keys issued with `vibe keys`", _produce)]


def _produce(context: AuthorizerContext) -> Authorizer:
    # Imported late: every start calls the hooks, and few are those of a daemon.
    from vibe_llms.daemons.keys.authorizer import produce_authorizer

    return produce_authorizer(context)
