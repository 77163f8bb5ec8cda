"""Python functions of judges: ``FILE.py:NAME`` or ``MODULE:NAME``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from vibe_llms.evals.suites import EvalJudge
from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.flows.predicates import gather_predicates
from vibe_llms.plugins.specification.flows import Predicate


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
        return _load_file(folder / Path(name).expanduser())
    except (Exception, SystemExit) as error:  # importing a module may do anything
        words = " ".join(str(error).split())
        raise _refuse(
            judge, f"Cannot load {judge.function}: {type(error).__name__}: {words}"
        ) from error


def _load_file(path: Path) -> ModuleType:
    """Execute a file as a module."""
    name = f"_vibe_llms_eval_{abs(hash(path.resolve())):x}"
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
