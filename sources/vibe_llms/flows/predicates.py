"""Predicates: named functions of plugins that judge a response when no rule of a task can.

A task file names them (the ``predicate`` of a category, the ``expected_value`` of a ``CUSTOM``
condition), and a plugin provides them (the hook ``survey_predicates``).
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
from vibe_llms.invocables.threads import run_in_thread
from vibe_llms.plugins.specification.flows import (
    Predicate,
    PredicateContext,
    PredicateSpecification,
)

if TYPE_CHECKING:
    from vibe_llms.plugins.manager import PluginManager

Predicates = Mapping[str, Predicate]
PredicateFunction: TypeAlias = Predicate | Callable[[str], Any]
"""Predicate of a program; it may take only the response."""

PredicatesArgument: TypeAlias = (
    Mapping[str, PredicateFunction] | Iterable[PredicateFunction] | PredicateFunction
)

ENOUGH: Final = 0.5
"""Minimum confidence of a predicate for its condition to hold."""


@frozen(kw_only=True)
class Ruling:
    """Ruling of a predicate on a response.

    Attributes:
        is_met: Whether it holds.
        confidence: Confidence in that, from 0 to 1.
        evidence: Reason, in a sentence.
    """

    is_met: bool
    confidence: float
    evidence: str


def survey_predicates(plugins: PluginManager) -> Predicates:
    """Collect the predicates of the plugins; of several with one name, the first is used.

    Do not call this in the thread of an event loop: the first call imports plugins.
    """
    found: dict[str, Predicate] = {}
    for each in plugins.survey_specifications(PredicateSpecification):
        found.setdefault(each.name, each.predicate)
    return found


def gather_predicates(argument: PredicatesArgument) -> Predicates:
    """Return predicates by name; functions in a list are named by themselves.

    Raises:
        TypeError: A predicate is not a function or has no name, or two predicates have equal names.
    """
    if isinstance(argument, Mapping):
        return {name: _adapt(each) for name, each in argument.items()}
    found: dict[str, Predicate] = {}
    functions: Any = argument
    if callable(argument) or isinstance(functions, str):
        functions = [argument]
    for each in functions:
        predicate, name = _adapt(each), getattr(each, "__name__", "<lambda>")
        if name == "<lambda>":
            raise TypeError("A predicate needs a name: write predicates={'name': function}.")
        if name in found:
            raise TypeError(f"Two predicates are called {name!r}. Rename one of them.")
        found[name] = predicate
    return found


def _adapt(argument: object) -> Predicate:
    """Return a function as a predicate, which is given a context, too."""
    if not callable(argument):
        kind = type(argument).__name__
        raise TypeError(f"A predicate must be a function of the response, not {kind}.")
    function = cast("Any", argument)
    try:
        inspect.signature(function).bind("", PredicateContext())
    except TypeError:  # it takes only the response
        pass
    except ValueError:  # functions in C may have no signature
        return cast("Predicate", function)
    else:
        return cast("Predicate", function)

    @functools.wraps(function)
    def call(response: str, context: PredicateContext, /) -> Any:
        return function(response)

    @functools.wraps(function)
    async def call_asynchronously(response: str, context: PredicateContext, /) -> Any:
        return await function(response)

    return cast("Predicate", call_asynchronously if is_asynchronous(function) else call)


def access_predicate(predicates: Predicates, name: str) -> Predicate:
    """Return the predicate with a name.

    Raises:
        UnknownNameError: No plugin has such a predicate; names the nearest.
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
    """Ask a predicate about a response; a synchronous function runs in a separate thread.

    Raises:
        UnknownNameError: No predicate has this name.
        PluginError: The predicate raised an error, or its return value is invalid.
    """
    predicate = access_predicate(predicates, name)
    try:
        answer = await _call(predicate, response, context)
    # Errors of this package are clear; report all others as the plugin's fault.
    except ConverseError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())
        raised = f"{type(error).__name__}: {words}" if words else type(error).__name__
        raise _produce_error(predicate, name, f"raised {raised}") from error
    return read_ruling(predicate, name, answer)


def read_ruling(predicate: Predicate, name: str, answer: object) -> Ruling:
    """Return the ruling that a predicate has returned. Raises PluginError if it is none."""
    ruling = _read(answer, name)
    if ruling is None:
        shown = answer if isinstance(answer, (int, float)) else type(answer).__name__
        expected = "True or False, a number from 0 to 1, or (True or False, 'why')"
        raise _produce_error(predicate, name, f"returned {shown} instead of {expected}")
    return ruling


async def _call(predicate: Predicate, response: str, context: PredicateContext) -> object:
    if is_asynchronous(predicate):
        return await cast("Any", predicate(response, context))
    plain = cast("Callable[[str, PredicateContext], object]", predicate)
    answer = await run_in_thread(lambda: plain(response, context))
    # A lambda may return an awaitable.
    return await answer if inspect.isawaitable(answer) else answer


def _read(answer: object, name: str) -> Ruling | None:
    subject = f"The predicate {name!r} says"
    # First, because booleans are numbers in Python.
    if isinstance(answer, bool):
        evidence = f"{subject} that it {'holds' if answer else 'does not hold'}."
        return Ruling(is_met=answer, confidence=1.0, evidence=evidence)
    if isinstance(answer, (int, float)) and 0 <= answer <= 1:  # false for NaN
        is_met = answer >= ENOUGH
        confidence = float(answer if is_met else 1 - answer)
        evidence = f"{subject} {answer:.2g}; {ENOUGH} is required."
        return Ruling(is_met=is_met, confidence=confidence, evidence=evidence)
    if (
        isinstance(answer, tuple)
        and len(answer) == 2
        and isinstance(answer[0], bool)
        and isinstance(answer[1], str)
    ):
        holds, why = answer
        plain = f"that it {'holds' if holds else 'does not hold'}"
        return Ruling(is_met=holds, confidence=1.0, evidence=f"{subject}: {why.strip() or plain}")
    return None


def _produce_error(predicate: Predicate, name: str, fault: str) -> PluginError:
    home = getattr(predicate, "__module__", "")
    return PluginError(
        plugin=home,
        detail=f"The predicate {name!r}{f' ({home})' if home else ''} {fault}.",
        remedy="Fix it, or report it to the plugin's author.",
        stage=Stage.EXECUTE,
    )
