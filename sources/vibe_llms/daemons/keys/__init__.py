"""``keys``: an authorizer that knows clients by bearer keys, and counts what they spend.

Behind the same hook as a stranger's. ``texts`` has the text of a key, ``register`` the file of
those that were given out, ``bounds`` what one may do, ``charges`` and ``journal`` what a request
takes, durably and at once, ``ledger`` the sums over all processes, and ``authorizer`` what a daemon
is given. May import what daemons may; refuses to know a protocol's faces, and the command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.plugins.markers import hook
from vibe_llms.plugins.specification.authorizers import AuthorizerSpecification

if TYPE_CHECKING:
    from vibe_llms.plugins.specification.daemons import Authorizer, AuthorizerContext


@hook
def survey_authorizers() -> list[AuthorizerSpecification]:
    """Names the one that ships."""
    return [AuthorizerSpecification("keys", "bearer keys that `vibe keys` gives out", _produce)]


def _produce(context: AuthorizerContext) -> Authorizer:
    # Every start asks plugins what they have, and few are those of a daemon.
    from vibe_llms.daemons.keys.authorizer import produce_authorizer

    return produce_authorizer(context)
