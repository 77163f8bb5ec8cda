"""Python functions as judges: those of plugins, of the program, or ``FILE.py:NAME``.

They are executed as tools are (:mod:`vibe_llms.invocables.call_execution`): a plain function runs
in a thread, and each call has a time limit. A function that cannot be stopped is abandoned; if too
many calls hang, the function is not called again.
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import importlib.util
import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from vibe_llms.evals.judges import Exhibit, JudgeRunner
from vibe_llms.evals.suites import EvalJudge
from vibe_llms.exceptions import ConfigurationError, ConverseError, Finding, PluginError
from vibe_llms.flows.predicates import (
    Predicates,
    Ruling,
    access_predicate,
    gather_predicates,
    read_ruling,
)
from vibe_llms.foundation.files import expand_home, resolve_links
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.bindings import Bound
from vibe_llms.invocables.call_execution import Interrupted, perform_validated
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.invokers import Effect, Invoker
from vibe_llms.invocables.outcomes import Outcome, fail
from vibe_llms.invocables.threads import run_in_thread
from vibe_llms.plugins.specification.flows import Predicate, PredicateContext

LOADING_SECONDS: Final = 60.0
"""Timeout for importing a function, unless that of its calls is longer."""

_CONCURRENCY: Final = 16
"""Maximum number of calls of one function at once, those that hang included."""


class FunctionJudge(JudgeRunner):
    """Runner of a function: that of a plugin, of a file, or of the program.

    Args:
        judge: Judge.
        predicates: Predicates of plugins and of the program, by name.
        folder: Folder at which relative paths of files start.
    """

    def __init__(self, judge: EvalJudge, predicates: Predicates, folder: Path) -> None:
        super().__init__(judge)
        self._predicates = predicates
        self._folder = folder
        seconds = judge.time_limit_seconds
        self._seconds = None if math.isinf(seconds) else seconds
        self._invoker: Invoker | None = None

    async def prepare(self) -> None:
        """Load the function.

        Raises:
            ConfigurationError: The function cannot be loaded.
            UnknownNameError: No plugin has the predicate.
        """
        name = self.judge.predicate or self.judge.name
        if self.judge.kind == "function":
            predicate = await self._load()
        else:
            predicate = access_predicate(self._predicates, name)  # before anything is paid for

        def conclude(value: object) -> Outcome:
            try:
                return Outcome(source=read_ruling(predicate, name, value))
            except PluginError as error:
                return fail(str(error))

        self._invoker = Invoker(
            name=name,
            description="Judge of answers.",
            schema={"type": "object"},
            function=predicate,
            bind=_bind,
            conclude=conclude,
            effect=Effect.PURE,
            time_limit_seconds=self._seconds,
            concurrency=_CONCURRENCY,
        )

    async def _load(self) -> Predicate:
        """Load the function of a file or module; importing one may hang. Raises ConfigurationError.

        Nothing waits for the thread of such an import, not even the end of the process.
        """
        if not isinstance(self.judge.function, str):
            return load_function(self.judge, self._folder)
        # A quick function may need a large library.
        seconds = self._seconds and max(self._seconds, LOADING_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                return await run_in_thread(lambda: load_function(self.judge, self._folder))
        except TimeoutError as error:
            message = (
                f"Cannot load {self.judge.function}: it takes longer than {seconds:g} seconds. "
                "Load less, or raise time_limit_seconds."
            )
            raise _refuse(self.judge, message) from error

    async def _rule(self, exhibit: Exhibit) -> Ruling:
        assert self._invoker is not None
        case = exhibit.case
        variables = {
            **copy.deepcopy(dict(case.variables)),  # functions may change them
            "case": case.name,
            "prompt": exhibit.prompt,
            "expected": copy.deepcopy(case.expected),
        }
        arguments: Any = {
            "response": exhibit.answer.text,
            "context": PredicateContext(variables=variables),
        }
        try:
            outcome = await perform_validated(self._invoker, arguments, InvocationContext())
        except Interrupted:
            raise KeyboardInterrupt from None
        if not isinstance(outcome.source, Ruling):
            raise ConverseError(detail=outcome.text)
        return outcome.source


def _bind(arguments: JsonObject, context: InvocationContext) -> Bound:
    return Bound((arguments["response"], arguments["context"]))


def load_function(judge: EvalJudge, folder: Path) -> Predicate:
    """Return the function of a judge as a predicate; imports its module.

    Args:
        folder: Folder at which relative paths of files start.

    Raises:
        ConfigurationError: The function cannot be loaded.
    """
    function: Any = judge.function
    if isinstance(function, str):
        module_name, _, name = function.rpartition(":")
        function = _find(judge, _load_module(judge, module_name, folder), name)
    try:
        return gather_predicates({judge.name: function})[judge.name]
    except TypeError as error:
        raise _refuse(judge, str(error)) from error


def _find(judge: EvalJudge, module: ModuleType, name: str) -> Callable[..., Any]:
    function: Any = getattr(module, name, None)
    if not callable(function):
        raise _refuse(judge, f"{judge.function}: There is no function {name!r}.")
    found: Callable[..., Any] = function
    return found


def _load_module(judge: EvalJudge, name: str, folder: Path) -> ModuleType:
    try:
        if not name.endswith(".py"):
            return importlib.import_module(name)
        return _load_file(folder / expand_home(name))
    except (Exception, SystemExit) as error:  # importing a module may do anything
        words = " ".join(str(error).split())
        raise _refuse(
            judge, f"Cannot load {judge.function}: {type(error).__name__}: {words}"
        ) from error


def _load_file(path: Path) -> ModuleType:
    """Execute a file as a module."""
    name = f"_vibe_llms_eval_{abs(hash(resolve_links(path))):x}"
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise ImportError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        specification.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _refuse(judge: EvalJudge, message: str) -> ConfigurationError:
    return ConfigurationError(findings=(Finding(place=f"judge {judge.name}", message=message),))
