"""Functions as the work of a batch."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec

from vibe_llms.batches.direct_backend import ProcessInput
from vibe_llms.batches.item_lines import digest
from vibe_llms.batches.items import BatchItem
from vibe_llms.exceptions import ConfigurationError, RequestError

Function: TypeAlias = Callable[[Any], Awaitable[Any]]


def name_function(function: Function) -> str:
    """Return the name that workers use to find a function.

    Raises:
        TypeError: The function does not have a name of its own.
    """
    name = getattr(function, "__name__", "")
    if name.isidentifier():
        return name
    subject = "A lambda" if name == "<lambda>" else f"An object of {type(function).__name__}"
    raise TypeError(
        f"{subject} has no name for workers to find it by: define it as `async def name(…)`, "
        "and pass it to open_batches(…, functions=[name])."
    )


def load_functions(text: str) -> list[Function]:
    """Import functions by their names, such as ``billing.rates:convert,texts:clean``.

    Raises:
        ConfigurationError: A name is invalid, or its function is missing.
    """
    return [_load(word) for each in text.split(",") if (word := each.strip())]


def _load(reference: str) -> Function:
    module, colon, name = reference.partition(":")
    if not colon or not name.isidentifier() or not all(map(str.isidentifier, module.split("."))):
        raise _refuse(f"Invalid function {reference!r}: write MODULE:NAME")
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # importing a module may raise SystemExit
        words = " ".join(str(error).split())
        # Otherwise the module exists, but a module that it imports is missing.
        is_absent = isinstance(error, ModuleNotFoundError) and error.name == module
        remedy = "install it, or add its folder to PYTHONPATH" if is_absent else "fix it"
        cause = f"{reference!r}: cannot import {module}, {type(error).__name__}: {words}"
        raise _refuse(f"{cause.rstrip('. ')}; {remedy}") from error
    function: Function | None = getattr(found, name, None)
    if not callable(function):
        fault = "not a function" if hasattr(found, name) else "missing"
        raise _refuse(f"{reference!r}: {name} of {module} is {fault}")
    if getattr(function, "__name__", "") != name:
        raise _refuse(f"{reference!r}: the function was defined under another name; use that name")
    return function


def _refuse(message: str) -> ConfigurationError:
    return ConfigurationError.at("functions", f"{message}.")


class FunctionWork:
    """Function that is called with each input.

    Args:
        function: The function object of this process.
    """

    def __init__(self, function: Function) -> None:
        self._function = function

    async def prepare(self) -> ProcessInput:
        """Return a function that calls the batch's function with one input."""
        return self._call

    async def _call(self, value: Any) -> BatchItem[Any]:
        return BatchItem(value=await self._function(value))

    def describe(self) -> Any:
        """Return a description that identifies the function."""
        function = self._function
        # A callable object has no name; its class has one.
        kind = function if hasattr(function, "__qualname__") else type(function)
        return {"function": f"{kind.__module__}.{kind.__qualname__}"}

    async def identify(self, value: Any) -> Any:
        """Return the input."""
        return value

    async def compose_input(self, value: Any) -> Any:
        """Return the input."""
        return value

    async def restore(self, item: BatchItem[Any]) -> BatchItem[Any]:
        """Return the item."""
        return item

    async def close(self) -> None:
        """Do nothing."""

    def ensure_portable(self) -> None:
        """Refuse a function that workers cannot find by name. Raises TypeError."""
        name_function(self._function)

    def compose_spec(self) -> dict[str, Any]:
        """Return the work's part of a specification; see :class:`.BatchSpec`."""
        name = name_function(self._function)
        return {"function": name, "settings": digest({"function": name})}

    async def write(self, value: Any) -> tuple[str, str]:
        """Return the digest of an input and its stored form. Raises RequestError."""
        try:
            encoded = msgspec.json.encode(value).decode()
        except (TypeError, ValueError, RecursionError, OverflowError) as error:
            raise RequestError(
                path="inputs",
                detail="Workers receive inputs as JSON, and this input cannot be written as JSON: "
                f"{error}.",
                remedy="Pass a JSON value, such as a name that the function can look up.",
            ) from error
        return digest(value), encoded
