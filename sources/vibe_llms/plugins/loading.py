"""Imports plugins, registers their hooks and calls them, one plugin at a time.

A plain pluggy call would end at the first plugin that raises. Here each is called by
itself; one that fails is named, set aside, and never asked again.
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

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

_REPAIR = "Repair it, or add it to plugins.disabled."
_INSTALL = "Install what has that module, or name it: package = '...'."


@frozen(kw_only=True)
class PluginFailure:
    """What went wrong with a plugin.

    Attributes:
        name: The plugin's name in the configuration.
        module: Its module.
        reason: What went wrong, in one line.
        place: Where the configuration names it.
        error: What was raised.
        is_fatal: Whether the plugin is set aside. If not, the rest of it is in use.
    """

    name: str
    module: str
    reason: str
    place: str
    error: ConverseError
    is_fatal: bool = True


@define(eq=False)
class PluginHost:
    """The plugins of one application: each imported at most once, and asked by name.

    Not safe for several threads: its manager lets in one at a time.

    Attributes:
        failures: What went wrong so far, in the order in which it did.
        loaded: How many plugins were imported: who keeps an answer of them all asks again where
            there are more.
    """

    failures: list[PluginFailure] = attrs.field(factory=list, init=False)
    loaded: int = attrs.field(default=0, init=False)
    _manager: pluggy.PluginManager = attrs.field(init=False)
    _broken_factories: set[int] = attrs.field(factory=set, init=False)
    _fatal_errors: dict[str, ConverseError] = attrs.field(factory=dict, init=False)
    _answers: dict[tuple[str, str], tuple[object, ...]] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(specification)

    def is_loaded(self, entry: PluginEntry) -> bool:
        """Tells whether the plugin was imported and is not set aside."""
        return self._manager.has_plugin(entry.module) and entry.module not in self._fatal_errors

    def find_failure(self, entry: PluginEntry) -> PluginFailure | None:
        """Returns what went wrong with the plugin; what set it aside comes before the rest."""
        fitting = [
            failure
            for failure in self.failures
            if failure.module == entry.module and (failure.is_fatal or failure.name == entry.name)
        ]
        return min(fitting, key=lambda failure: not failure.is_fatal, default=None)

    def load(self, entry: PluginEntry, prepare: Callable[[], None] = lambda: None) -> None:
        """Imports the plugin's module and registers its hooks, unless that has been done.

        Args:
            entry: The plugin.
            prepare: Called before the import, such as to install the plugin's package.

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
            deed = f"cannot be imported: {describe_error(error)}"
            # Another one that is missing is imported by the plugin, whose mistake that is.
            is_absent = isinstance(error, ModuleNotFoundError) and error.name == entry.module
            remedy = _INSTALL if is_absent else _REPAIR
            raise self._set_aside(entry, deed, remedy) from error
        try:
            self._register(entry, module)
        except (pluggy.PluginValidationError, ValueError) as error:
            deed = f"has a hook of a wrong form: {describe_error(error)}"
            raise self._set_aside(entry, deed) from error
        # Only now: whoever counts them asks plugins, and must find this one's hooks.
        self.loaded += 1

    def call(self, entry: PluginEntry, kind: type[_T]) -> tuple[_T, ...]:
        """Calls one hook of one plugin that is loaded; later calls repeat the first answer.

        Args:
            entry: The plugin.
            kind: What the hook's specification says that the list is made of.

        Raises:
            PluginError: The hook raised, or returned something else; the plugin is set aside.
        """
        if entry.module in self._fatal_errors:
            raise self._fatal_errors[entry.module].with_traceback(None)
        (hook,) = (hook for hook, made_of in specification.HOOKS.items() if made_of is kind)
        key = (entry.module, hook)
        if key not in self._answers:
            self._answers[key] = self._ask(entry, hook, kind)
        return cast(tuple[_T, ...], self._answers[key])

    def make(
        self, entry: PluginEntry, specification: ReactorsSpecification | ListenerSpecification
    ) -> Any:
        """Calls a factory of a plugin that is loaded.

        Returns:
            The reactors or the listener that it made; ``None`` if it fails, or has failed before
            and so is not called again.
        """
        if id(specification) in self._broken_factories:  # the answers keep it alive
            return None
        made: object = None
        cause: BaseException | None = None
        try:
            made = specification.factory()
            deed = f"returned {_describe_answer(made)}"
        except (Exception, SystemExit) as error:
            deed, cause = f"raised {describe_error(error)}", error
        if cause is None and _fits(made, specification):
            return made
        _discard(made)
        self._broken_factories.add(id(specification))
        kind = type(specification).__name__.removesuffix("Specification").lower()
        reason = f"Its {kind} {specification.name!r} cannot be made: the factory {deed}."
        failure = PluginError(
            plugin=entry.name,
            detail=f"The plugin {entry.name!r} ({entry.module}, {entry.source}): {reason}",
        )
        failure.__cause__ = cause
        self.note(entry, failure, reason)
        return None

    def note(
        self, entry: PluginEntry, error: ConverseError, reason: str = "", *, is_fatal: bool = False
    ) -> None:
        """Adds to the failures what went wrong with a plugin, unless it is among them.

        Args:
            entry: The plugin.
            error: What was raised, or will be.
            reason: What went wrong, in one line; by default what the error says.
            is_fatal: Whether the plugin is set aside, and raises this error from now on.
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
        # Not the module itself: pluggy would look at each name that it offers, and so load
        # those which it offers lazily.
        hooks = types.ModuleType(entry.module)
        for name, value in vars(module).items():
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
            reason = f"There is no hook {caller.name!r}{suggest(caller.name, known)}"
            error = PluginError(
                plugin=entry.name, detail=f"The plugin {entry.name!r} ({entry.module}): {reason}"
            )
            self.note(entry, error, reason)

    def _ask(self, entry: PluginEntry, hook: str, kind: type[object]) -> tuple[object, ...]:
        plugin = self._manager.get_plugin(entry.module)
        # pluggy has no call of one plugin; the rest is left out, so that a failure has a name.
        others = [other for other in self._manager.get_plugins() if other is not plugin]
        caller = self._manager.subset_hook_caller(hook, others)
        if not caller.get_hookimpls():
            return ()
        try:
            # pluggy leaves out an answer of None, and so gives none at all.
            (answer,) = caller() or (None,)
        except (Exception, SystemExit) as error:
            deed = f"failed in {hook}: {describe_error(error)}"
            raise self._set_aside(entry, deed) from error
        if isinstance(answer, (list, tuple)) and all(isinstance(item, kind) for item in answer):
            return tuple(answer)
        _discard(answer)
        wanted = f"in place of a list of {kind.__name__}"
        raise self._set_aside(entry, f"returned {_describe_answer(answer)} from {hook}, {wanted}")

    def _set_aside(self, entry: PluginEntry, deed: str, remedy: str = _REPAIR) -> PluginError:
        error = PluginError(
            plugin=entry.name,
            detail=f"The plugin {entry.name!r} ({entry.module}, {entry.source}) {deed}.",
            remedy=remedy,
        )
        self.note(entry, error, f"It {deed}.", is_fatal=True)
        return error


def _fits(made: object, specification: ReactorsSpecification | ListenerSpecification) -> bool:
    from vibe_llms.events.bus import is_asynchronous
    from vibe_llms.events.reactors import ConversationReactors
    from vibe_llms.plugins.specification.runs import ReactorsSpecification

    if isinstance(specification, ReactorsSpecification):
        return isinstance(made, ConversationReactors)
    return callable(made) and not is_asynchronous(made)


def describe_error(error: BaseException) -> str:
    """Says in one line what was raised."""
    try:
        words = " ".join(str(error).split())
    except Exception:  # an error of a plugin may fail at this as well
        words = ""
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def _discard(answer: object) -> None:
    """Closes a coroutine: hooks and factories are plain functions, and nobody will await it."""
    if isinstance(answer, types.CoroutineType):
        answer.close()


def _describe_answer(answer: object) -> str:
    """Says what an answer is, as far as it is not what was asked for."""
    if isinstance(answer, (list, tuple)):
        kinds = dict.fromkeys(type(item).__name__ for item in answer)
        return f"a {type(answer).__name__} of {', '.join(kinds)}"
    return "None" if answer is None else f"one {type(answer).__name__}"
