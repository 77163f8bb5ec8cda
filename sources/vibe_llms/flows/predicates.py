"""Predicates: what tells of a response what no rule of a task file can say, by name from a plugin.

A task file names them (the ``predicate`` of a category, the ``expected_value`` of a ``CUSTOM``
condition), a plugin has them (the hook ``survey_predicates``).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from vibe_llms.events.bus import is_asynchronous
from vibe_llms.exceptions import ConverseError, PluginError, Stage, UnknownNameError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.suggestions import order_by_nearness
from vibe_llms.invocables.workers import run_in_thread
from vibe_llms.plugins.specification.flows import (
    Predicate,
    PredicateContext,
    PredicateSpecification,
)

if TYPE_CHECKING:
    from vibe_llms.plugins.manager import PluginManager

Predicates = Mapping[str, Predicate]
PredicateFunction: TypeAlias = Predicate | Callable[[str], Any]
"""What a program may give: a predicate, or one that looks at nothing but the response."""

GivenPredicates: TypeAlias = (
    Mapping[str, PredicateFunction] | Iterable[PredicateFunction] | PredicateFunction
)

ENOUGH: Final = 0.5
"""How sure a predicate must at least be for what it says to hold."""


@frozen(kw_only=True)
class Ruling:
    """What a predicate says of a response.

    Attributes:
        is_met: Whether it holds.
        confidence: In that, from 0 to 1.
        evidence: Why, in a sentence.
    """

    is_met: bool
    confidence: float
    evidence: str


def survey_predicates(plugins: PluginManager) -> Predicates:
    """Asks the plugins for their predicates; of several of one name the first is meant.

    Not for the thread of an event loop: the first call imports plugins.
    """
    found: dict[str, Predicate] = {}
    for each in plugins.survey_pieces(PredicateSpecification):
        found.setdefault(each.name, each.predicate)
    return found


def gather_predicates(given: GivenPredicates) -> Predicates:
    """Return predicates by their names; functions without another one have their own.

    Raises:
        TypeError: One of them is not a function, or has no name, or two have the same.
    """
    if isinstance(given, Mapping):
        return {name: _take(each) for name, each in given.items()}
    found: dict[str, Predicate] = {}
    several: Any = given
    if callable(given) or isinstance(several, str):
        several = [given]
    for each in several:
        predicate, name = _take(each), getattr(each, "__name__", "<lambda>")
        if name == "<lambda>":
            raise TypeError("A predicate needs a name: write predicates={'name': function}.")
        if name in found:
            raise TypeError(f"Two predicates are called {name!r}. Rename one of them.")
        found[name] = predicate
    return found


def _take(given: object) -> Predicate:
    """Return a function as a predicate, which is given a context, too."""
    if not callable(given):
        kind = type(given).__name__
        raise TypeError(f"A predicate must be a function of the response, not {kind}.")
    function = cast("Any", given)
    try:
        inspect.signature(function).bind("", PredicateContext())
    except TypeError:  # it takes the response alone
        pass
    except ValueError:  # one of C says nothing of itself
        return cast("Predicate", function)
    else:
        return cast("Predicate", function)

    @functools.wraps(function)
    def look(response: str, context: PredicateContext, /) -> Any:
        return function(response)

    @functools.wraps(function)
    async def look_in_loop(response: str, context: PredicateContext, /) -> Any:
        return await function(response)

    return cast("Predicate", look_in_loop if is_asynchronous(function) else look)


def access_predicate(predicates: Predicates, name: str) -> Predicate:
    """Returns the predicate of a name.

    Raises:
        UnknownNameError: No plugin has one; names the nearest.
    """
    if name in predicates:
        return predicates[name]
    raise UnknownNameError(
        kind="predicate",
        name=name,
        known=order_by_nearness(name, predicates),
        remedy="Use a known name, or add the plugin that provides it: [plugins.NAME] with "
        "its module.",
    )


async def ask_predicate(
    predicates: Predicates, name: str, response: str, context: PredicateContext
) -> Ruling:
    """Asks a predicate about a response; a plain function runs in a thread of its own.

    Raises:
        UnknownNameError: There is none of this name.
        PluginError: It raised, or answered with something else than a predicate does.
    """
    predicate = access_predicate(predicates, name)
    try:
        answer = await _call(predicate, response, context)
    # What is ours already says what went wrong; all else is told as the plugin's fault.
    except ConverseError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())
        raised = f"{type(error).__name__}: {words}" if words else type(error).__name__
        raise _blame(predicate, name, f"raised {raised}") from error
    ruling = _read(answer, name)
    if ruling is None:
        shown = answer if isinstance(answer, (int, float)) else type(answer).__name__
        wanted = "True or False, a number from 0 to 1, or (True or False, 'why')"
        raise _blame(predicate, name, f"returned {shown} instead of {wanted}")
    return ruling


async def _call(predicate: Predicate, response: str, context: PredicateContext) -> object:
    if is_asynchronous(predicate):
        return await cast("Any", predicate(response, context))
    plain = cast("Callable[[str, PredicateContext], object]", predicate)
    answer = await run_in_thread(lambda: plain(response, context))
    # A lambda may return what is to be awaited.
    return await answer if inspect.isawaitable(answer) else answer


def _read(answer: object, name: str) -> Ruling | None:
    says = f"The predicate {name!r} says"
    # First, because a truth is a number to Python, too.
    if isinstance(answer, bool):
        evidence = f"{says} that it {'holds' if answer else 'does not hold'}."
        return Ruling(is_met=answer, confidence=1.0, evidence=evidence)
    if isinstance(answer, (int, float)) and 0 <= answer <= 1:  # what is no number is neither
        is_met = answer >= ENOUGH
        confidence = float(answer if is_met else 1 - answer)
        evidence = f"{says} {answer:.2g}; {ENOUGH} is required."
        return Ruling(is_met=is_met, confidence=confidence, evidence=evidence)
    if (
        isinstance(answer, tuple)
        and len(answer) == 2
        and isinstance(answer[0], bool)
        and isinstance(answer[1], str)
    ):
        holds, why = answer
        plain = f"that it {'holds' if holds else 'does not hold'}"
        return Ruling(is_met=holds, confidence=1.0, evidence=f"{says}: {why.strip() or plain}")
    return None


def _blame(predicate: Predicate, name: str, deed: str) -> PluginError:
    home = getattr(predicate, "__module__", "")
    return PluginError(
        plugin=home,
        detail=f"The predicate {name!r}{f' ({home})' if home else ''} {deed}.",
        remedy="Fix it, or report it to the plugin's author.",
        stage=Stage.EXECUTE,
    )
