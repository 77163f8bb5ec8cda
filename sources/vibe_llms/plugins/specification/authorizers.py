"""Specification of authorizers: a separate module, because every start imports it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from vibe_llms.foundation.attrs_classes import frozen

if TYPE_CHECKING:  # types only: few starts are those of a daemon
    from vibe_llms.plugins.specification.daemons import Authorizer, AuthorizerContext


@frozen
class AuthorizerSpecification:
    """An authorizer of a plugin.

    Attributes:
        name: Its name in the configuration.
        summary: Its criteria, in one line.
        factory: Makes the authorizer from its context; called once per process of a daemon.
    """

    name: str
    summary: str
    factory: Callable[[AuthorizerContext], Authorizer] = attrs.field(repr=False)
