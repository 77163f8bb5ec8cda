"""What the hook of authorizers names: a module of its own, for all starts import it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from vibe_llms.foundation.attrs_classes import frozen

if TYPE_CHECKING:  # types only: few starts are those of a daemon
    from vibe_llms.plugins.specification.daemons import Authorizer, AuthorizerContext


@frozen
class AuthorizerSpecification:
    """An authorizer that a plugin has.

    Attributes:
        name: What the user calls it.
        summary: What it goes by, in one line.
        factory: Makes the authorizer from its context; once per process of a daemon.
    """

    name: str
    summary: str
    factory: Callable[[AuthorizerContext], Authorizer] = attrs.field(repr=False)
