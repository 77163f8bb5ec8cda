"""What is wrong with a part of a task, before anybody knows in which file it stands."""

from __future__ import annotations

from vibe_llms.values import frozen


@frozen(kw_only=True)
class FlowFault:
    """One mistake in a template or a diagram.

    Attributes:
        line: In that text, from 1.
        column: In that line, from 1.
        message: What is wrong, and what to write instead.
        is_harmless: Whether the flow runs all the same, unless it is checked strictly.
    """

    line: int
    column: int
    message: str
    is_harmless: bool = False
