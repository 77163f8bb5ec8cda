"""The kinds of guards that ship: secrets, a word list, a moderator and a judge model."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from vibe_llms.plugins.specification.guards import GuardSpecification

if TYPE_CHECKING:
    from vibe_llms.plugins.specification.guards import Guard, GuardContext


def survey_guards() -> list[GuardSpecification]:
    """Return the kinds; each module is imported when a table chooses its kind."""
    return [
        GuardSpecification("secrets", "keys and personal data, by patterns", _make("secrets")),
        GuardSpecification("words", "words and phrases of a list", _make("words")),
        GuardSpecification("moderator", "what a moderator calls harmful", _make("moderation")),
        GuardSpecification("judge", "what a model answers a question with", _make("judgment")),
    ]


def _make(module: str) -> Callable[[GuardContext], Guard]:
    def make(context: GuardContext) -> Guard:
        guard: Guard = import_module(f"{__name__}.{module}").make_guard(context)
        return guard

    return make
