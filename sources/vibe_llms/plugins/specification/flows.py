"""What a plugin says of task flows: predicates, which task files name."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Protocol, TypeAlias

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue


@frozen(kw_only=True)
class PredicateContext:
    """What a predicate may look at besides the response.

    Attributes:
        variables: What ``{{name}}`` means in the flow's prompts.
        responses: What each node said last, by its id.
    """

    variables: Mapping[str, JsonValue] = attrs.field(factory=dict)
    responses: Mapping[str, str] = attrs.field(factory=dict)


PredicateAnswer: TypeAlias = bool | float | tuple[bool, str]
"""Whether it holds; or how sure that is, from 0 to 1, a half being enough; or whether and why."""


class Predicate(Protocol):
    """Tells whether something holds of a response: a plain function, or an ``async`` one.

    A plain one runs in a thread of its own. One that raises fails the visit, or the condition of
    the goal, that asks it.
    """

    def __call__(
        self, response: str, context: PredicateContext, /
    ) -> PredicateAnswer | Awaitable[PredicateAnswer]:
        """Looks at a response."""
        ...


@frozen
class PredicateSpecification:
    """A predicate that a plugin has.

    Attributes:
        name: What task files call it: the ``predicate`` of a category, and the
            ``expected_value`` of a ``CUSTOM`` condition.
        summary: When it holds, in one line.
        predicate: The function itself; what is heavy it imports when it is called.
    """

    name: str
    summary: str
    predicate: Predicate
