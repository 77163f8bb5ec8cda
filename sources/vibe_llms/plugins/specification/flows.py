"""Specifications of task flows: predicates, which task files name."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Protocol, TypeAlias

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue


@frozen(kw_only=True)
class PredicateContext:
    """Input of a predicate in addition to the response.

    Attributes:
        variables: Values of ``{{name}}`` in the flow's prompts.
        responses: The last response of each node, by its id.
    """

    variables: Mapping[str, JsonValue] = attrs.field(factory=dict)
    responses: Mapping[str, str] = attrs.field(factory=dict)


PredicateAnswer: TypeAlias = bool | float | tuple[bool, str]
"""Result of a predicate: true or false; a confidence from 0 to 1, where 0.5 or more means true; or
true or false with a reason."""


class Predicate(Protocol):
    """Predicate about a response: a plain function, or an ``async`` one.

    A plain one runs in a thread of its own. An exception fails the visit, or the condition of the
    goal, that uses it.
    """

    def __call__(
        self, response: str, context: PredicateContext, /
    ) -> PredicateAnswer | Awaitable[PredicateAnswer]:
        """Evaluate a response."""
        ...


@frozen
class PredicateSpecification:
    """A predicate of a plugin.

    Attributes:
        name: Its name in task files: the ``predicate`` of a category, and the ``expected_value`` of
            a ``CUSTOM`` condition.
        summary: Its condition, in one line.
        predicate: The function itself; import heavy libraries when it is called.
    """

    name: str
    summary: str
    predicate: Predicate
