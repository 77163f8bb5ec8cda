"""Import of plugins, registration of their hooks, and calls of one plugin at a time.

A plain pluggy call would end at the first plugin that raises. Here each is called separately; a
failing plugin is reported, set aside, and never called again.
"""

from __future__ import annotations

import importlib
import inspect
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import pluggy

from vibe_llms.configuration.classes import PluginEntry
from vibe_llms.exceptions import ConverseError, PluginError
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.suggestions import suggest
from vibe_llms.plugins.markers import PROJECT
from vibe_llms.plugins.specification import hooks as specification

if TYPE_CHECKING:
    from vibe_llms.plugins.specification.runs import ListenerSpecification, ReactorsSpecification

_T = TypeVar("_T")

_REPAIR = "Correct it, or add it to plugins.disabled."
_INSTALL = "Install the package with that module, or name it: package = '...'."


@frozen(kw_only=True)
class PluginFailure:
    """Failure of a plugin.

    Attributes:
        name: The plugin's name in the configuration.
        module: Module of the plugin.
        reason: The error, in one line.
        place: Place of the plugin in the configuration.
        error: The exception.
        is_fatal: Whether the plugin is set aside, and none of its hooks is called any longer.
            Otherwise the rest of it stays in use.
    """

    name: str
    module: str
    reason: str
    place: str
    error: ConverseError
    is_fatal: bool = True


@define(eq=False)
class PluginHost:
    """The plugins of one application: each imported at most once, and called by name.

    Not thread-safe: its manager serializes the calls.

    Attributes:
        failures: The failures so far, in their order.
        loaded_count: Number of imported plugins. A caller that caches the answers of all plugins
            must ask again when this has grown.
    """

    failures: list[PluginFailure] = attrs.field(factory=list, init=False)
    loaded_count: int = attrs.field(default=0, init=False)
    _manager: pluggy.PluginManager = attrs.field(init=False)
    _broken_factories: set[int] = attrs.field(factory=set, init=False)
    _fatal_errors: dict[str, ConverseError] = attrs.field(factory=dict, init=False)
    _answers: dict[tuple[str, str], tuple[object, ...]] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(specification)

    def is_loaded(self, entry: PluginEntry) -> bool:
        """Return whether the plugin was imported and is not set aside."""
        return self._manager.has_plugin(entry.module) and entry.module not in self._fatal_errors

    def find_failure(self, entry: PluginEntry) -> PluginFailure | None:
        """Return the failure of the plugin, a fatal one before others."""
        failures = [
            failure
            for failure in self.failures
            if failure.module == entry.module and (failure.is_fatal or failure.name == entry.name)
        ]
        return min(failures, key=lambda failure: not failure.is_fatal, default=None)

    def load(self, entry: PluginEntry, prepare: Callable[[], None] = lambda: None) -> None:
        """Import the plugin's module and register its hooks, unless that has been done.

        Args:
            entry: The plugin.
            prepare: Called before the import, for example to install the plugin's package.

        Raises:
            PluginError: It cannot be loaded; the same error each time.
        """
        if entry.module in self._fatal_errors:
            raise self._fatal_errors[entry.module].with_traceback(None)
        if self._manager.has_plugin(entry.module):
            return
        prepare()
        try:
            module = importlib.import_module(entry.module)
        except (Exception, SystemExit) as error:
            problem = f"cannot be imported: {describe_error(error)}"
            # If another module is missing, the plugin's own import is wrong.
            is_absent = isinstance(error, ModuleNotFoundError) and error.name == entry.module
            remedy = _INSTALL if is_absent else _REPAIR
            raise self._set_aside(entry, problem, remedy) from error
        try:
            self._register(entry, module)
        except (pluggy.PluginValidationError, ValueError) as error:
            problem = f"has an invalid hook: {describe_error(error)}"
            raise self._set_aside(entry, problem) from error
        # Last: a caller that sees the new number calls the hooks of all plugins, also of this one.
        self.loaded_count += 1

    def call(self, entry: PluginEntry, kind: type[_T]) -> tuple[_T, ...]:
        """Call the hook of a loaded plugin whose items have a type; see :meth:`call_hook`."""
        return self.call_hook(entry, specification.find_hook(kind))

    def call_hook(self, entry: PluginEntry, hook: str) -> tuple[Any, ...]:
        """Call one hook of a loaded plugin; later calls return the first answer.

        Raises:
            PluginError: The hook raised, or returned an invalid value; the plugin is set aside.
        """
        if entry.module in self._fatal_errors:
            raise self._fatal_errors[entry.module].with_traceback(None)
        key = (entry.module, hook)
        if key not in self._answers:
            self._answers[key] = self._call_hook(entry, hook)
        return self._answers[key]

    def make(
        self, entry: PluginEntry, specification: ReactorsSpecification | ListenerSpecification
    ) -> Any:
        """Call a factory of a loaded plugin.

        Returns:
            The reactors or the listener; ``None`` if the factory fails, or has failed before
            and so is not called again.
        """
        # The cached answers refer to the specification, so that no other one gets its id.
        if id(specification) in self._broken_factories:
            return None
        value: object = None
        cause: BaseException | None = None
        try:
            value = specification.factory()
            problem = f"returned {_describe_answer(value)}"
        except (Exception, SystemExit) as error:
            problem, cause = f"raised {describe_error(error)}", error
        if cause is None and _is_valid(value, specification):
            return value
        _discard(value)
        self._broken_factories.add(id(specification))
        kind = type(specification).__name__.removesuffix("Specification").lower()
        reason = f"Its {kind} {specification.name!r} cannot be created: the factory {problem}."
        failure = PluginError(
            plugin=entry.name,
            detail=f"The plugin {entry.name!r} ({entry.module}, {entry.source}): {reason}",
        )
        failure.__cause__ = cause
        self.record_failure(entry, failure, reason)
        return None

    def record_failure(
        self, entry: PluginEntry, error: ConverseError, reason: str = "", *, is_fatal: bool = False
    ) -> None:
        """Add a failure of a plugin, unless it is already recorded.

        Args:
            entry: The plugin.
            error: The exception.
            reason: The error, in one line; by default that of the exception.
            is_fatal: The plugin is set aside, and raises this error from now on.
        """
        if is_fatal:
            self._fatal_errors[entry.module] = error
        failure = PluginFailure(
            name=entry.name,
            module=entry.module,
            reason=reason or " ".join(str(error).split()),
            place=str(entry.source),
            error=error,
            is_fatal=is_fatal,
        )
        known = {(other.name, other.module, other.reason) for other in self.failures}
        if (failure.name, failure.module, failure.reason) not in known:
            self.failures.append(failure)

    def _register(self, entry: PluginEntry, module: types.ModuleType) -> None:
        # Not the module itself: pluggy would read each of its names, and so import those that are
        # imported on demand.
        hooks = types.ModuleType(entry.module)
        for name, value in vars(module).items():
            # pluggy asks the same, but is slow for each name.
            if not inspect.isroutine(value):
                continue
            if self._manager.parse_hookimpl_opts(module, name) is not None:
                setattr(hooks, name, value)
        self._manager.register(hooks, name=entry.module)
        self._report_unknown_hooks(entry, hooks)

    def _report_unknown_hooks(self, entry: PluginEntry, hooks: types.ModuleType) -> None:
        known = [name for name in vars(specification) if name.startswith("survey_")]
        for caller in self._manager.get_hookcallers(hooks) or ():
            (implementation,) = (found for found in caller.get_hookimpls() if found.plugin is hooks)
            if caller.has_spec() or implementation.optionalhook:
                continue
            reason = f"Unknown hook {caller.name!r}{suggest(caller.name, known)}"
            error = PluginError(
                plugin=entry.name, detail=f"The plugin {entry.name!r} ({entry.module}): {reason}"
            )
            self.record_failure(entry, error, reason)

    def _call_hook(self, entry: PluginEntry, hook: str) -> tuple[object, ...]:
        plugin = self._manager.get_plugin(entry.module)
        # pluggy cannot call a single plugin; the others are excluded, so that a failure has a name.
        other_plugins = [other for other in self._manager.get_plugins() if other is not plugin]
        caller = self._manager.subset_hook_caller(hook, other_plugins)
        if not caller.get_hookimpls():
            return ()
        try:
            # pluggy returns a list of answers and leaves out None, so that the list may be empty.
            (answer,) = caller() or (None,)
        except (Exception, SystemExit) as error:
            problem = f"failed in {hook}: {describe_error(error)}"
            raise self._set_aside(entry, problem) from error
        kind = specification.access_kind(hook)
        if isinstance(answer, (list, tuple)) and all(isinstance(item, kind) for item in answer):
            return tuple(answer)
        _discard(answer)
        problem = f"returned {_describe_answer(answer)} from {hook}"
        raise self._set_aside(entry, f"{problem}, in place of a list of {kind.__name__}")

    def _set_aside(self, entry: PluginEntry, problem: str, remedy: str = _REPAIR) -> PluginError:
        error = PluginError(
            plugin=entry.name,
            detail=f"The plugin {entry.name!r} ({entry.module}, {entry.source}) {problem}.",
            remedy=remedy,
        )
        self.record_failure(entry, error, f"It {problem}.", is_fatal=True)
        return error


def _is_valid(value: object, specification: ReactorsSpecification | ListenerSpecification) -> bool:
    from vibe_llms.events.bus import is_asynchronous
    from vibe_llms.events.reactors import ConversationReactors
    from vibe_llms.plugins.specification.runs import ReactorsSpecification

    if isinstance(specification, ReactorsSpecification):
        return isinstance(value, ConversationReactors)
    return callable(value) and not is_asynchronous(value)


def describe_error(error: BaseException) -> str:
    """Return the message of an error, in one line."""
    try:
        words = " ".join(str(error).split())
    except Exception:  # a plugin's error may fail here as well
        words = ""
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def _discard(answer: object) -> None:
    """Close a coroutine: hooks and factories are plain functions, so it is never awaited."""
    if isinstance(answer, types.CoroutineType):
        answer.close()


def _describe_answer(answer: object) -> str:
    """Describe an invalid answer."""
    if isinstance(answer, (list, tuple)):
        kinds = dict.fromkeys(type(item).__name__ for item in answer)
        return f"a {type(answer).__name__} of {', '.join(kinds)}"
    return "None" if answer is None else f"one {type(answer).__name__}"
