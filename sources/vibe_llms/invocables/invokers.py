"""Invokers: functions that a model may call, with their descriptions, schemas and limits."""

from __future__ import annotations

import enum
import inspect
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

import attrs

from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.invocables.argument_faults import ArgumentFault
from vibe_llms.invocables.bindings import Binder, bind_whole
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.deduplicators import Deduplicator
from vibe_llms.invocables.gates import Gates
from vibe_llms.invocables.outcomes import Outcome, fail, produce_outcome, produce_structure
from vibe_llms.invocables.validation import Validator, produce_validator
from vibe_llms.messages.contents import CacheHint
from vibe_llms.messages.descriptions import InvocableDescription, describe_server_tool
from vibe_llms.messages.json_values import ensure_schema
from vibe_llms.messages.server_tools import CALLER_TOOLS, ServerTool

if TYPE_CHECKING:
    from vibe_llms.guards.arguments import ArgumentGuard
    from vibe_llms.invocables.schemas import FunctionForm

_Function = TypeVar("_Function", bound=Callable[..., Any])

MARK: Final = "__vibe_invocable__"
"""Attribute under which the decorator stores its options on a function."""


FORM: Final = "__vibe_form__"
"""Attribute that caches the form of a decorated function, with the key of the cache."""


class Effect(enum.StrEnum):
    """Side effects of an execution, which decide about retries.

    ``PURE`` has none: identical calls may share one execution. ``IDEMPOTENT`` may be executed again
    after a crash. ``ONCE`` is never silently executed again.
    """

    PURE = "pure"
    IDEMPOTENT = "idempotent"
    ONCE = "once"


def conclude_structured(value: Any) -> Outcome:
    """Create an outcome from a value, as text and as plain data."""
    outcome = produce_outcome(value)
    if isinstance(value, Outcome):
        return outcome
    return attrs.evolve(outcome, structured=produce_structure(value))


def _ensure_schema(schema: JsonObject) -> JsonObject:
    return ensure_schema(schema) or {}


def _ensure_output_schema(schema: JsonObject | None) -> JsonObject | None:
    return None if schema is None else ensure_schema(schema)


def _ensure_positive(invoker: Invoker, field: attrs.Attribute[Any], value: float | None) -> None:
    if value is not None and not value > 0:
        raise _refuse(invoker.name, f"{field.name} is {value}", "Pass a number above 0, or None.")


def _refuse(name: str, problem: str, remedy: str) -> RequestError:
    detail = f"Invalid invocable {name!r}: {problem}."
    return RequestError(path=name, detail=detail, remedy=remedy, stage=Stage.CONFIGURE)


@frozen(kw_only=True, eq=False)
class Invoker:
    """A tool: a function with a description, a schema, limits and an effect.

    Attributes:
        name: The name for the model; a registry may add a prefix.
        description: Purpose of the tool, and when to use it; required.
        schema: A JSON Schema of its arguments, which are an object.
        function: The plain or asynchronous function; it is called with what ``bind`` returns.
        bind: Turns the model's arguments and the context into the arguments of the function; by
            default, the function gets both unchanged. It may raise :class:`.argument_faults.Misfit`
            for arguments that the schema accepts but the function does not.
        effect: Side effects of an execution.
        needs_approval: Require an approval before each execution.
        time_limit_seconds: Timeout of one execution; ``None`` for no limit.
        output_limit_characters: Limit of all texts of one result.
        output_limit_bytes: Limit of all media of one result.
        concurrency: Maximum number of concurrent executions; ``None`` for no limit.
        deduplicator: Identifies earlier results that a result supersedes.
        is_final: True if a successful result ends the run as its answer.
        title: Display name.
        cache: A mark for prompt caches behind this tool.
        output_schema: For programs, a JSON Schema of its results as plain data, which must be an
            object. A result that does not match it is an error.
        conclude: Turns the function's return value into an outcome.
        source: The object from which the invoker was made, for consumers that use the protocol of
            the object. If it is a :class:`ServerTool` such as ``computer`` or ``memory``, a vendor
            that defines the tool is offered it, and this function executes its calls.
        guard: Examines the arguments before each execution; set by a registry.
        is_asynchronous: True if the function is awaited rather than run in a thread; derived.

    Raises:
        RequestError: The name or the description is empty, or a limit is not positive.
    """

    name: str
    description: str
    schema: JsonObject = attrs.field(converter=_ensure_schema)
    function: Callable[..., Any]
    bind: Binder = bind_whole
    effect: Effect = attrs.field(default=Effect.ONCE, converter=Effect)
    needs_approval: bool = False
    time_limit_seconds: float | None = attrs.field(default=60.0, validator=_ensure_positive)
    output_limit_characters: int = attrs.field(default=100_000, validator=_ensure_positive)
    output_limit_bytes: int = attrs.field(default=20_000_000, validator=_ensure_positive)
    concurrency: int | None = attrs.field(default=None, validator=_ensure_positive)
    deduplicator: Deduplicator | None = None
    is_final: bool = False
    title: str = ""
    cache: CacheHint | None = None
    output_schema: JsonObject | None = attrs.field(default=None, converter=_ensure_output_schema)
    conclude: Callable[[Any], Outcome] = attrs.field(repr=False)
    source: object = attrs.field(default=None, repr=False)
    guard: ArgumentGuard | None = attrs.field(default=None, repr=False)
    _gates: Gates | None = attrs.field(default=None, repr=False)
    is_asynchronous: bool = attrs.field(init=False, repr=False)
    # Created when they are first needed.
    _validator: Validator | None = attrs.field(default=None, init=False, repr=False)
    _output_validator: Validator | None = attrs.field(default=None, init=False, repr=False)

    @conclude.default
    def _choose_conclusion(self) -> Callable[[Any], Outcome]:
        return produce_outcome if self.output_schema is None else conclude_structured

    @is_asynchronous.default
    def _detect_asynchronous(self) -> bool:
        if inspect.iscoroutinefunction(self.function):
            return True
        call = getattr(self.function, "__call__", None)  # noqa: B004  # inspects the method
        return type(call) is not types.MethodWrapperType and inspect.iscoroutinefunction(call)

    def __attrs_post_init__(self) -> None:
        if not self.name.strip():
            raise _refuse(self.name, "it has no name", "Give it a name.")
        if not self.description.strip():
            raise _refuse(
                self.name,
                "it has no description",
                "State its purpose, and when to use it, in its docstring or with description=….",
            )
        if self.concurrency is not None and (
            self._gates is None or self._gates.limit != self.concurrency
        ):
            # Copies made by attrs.evolve share the gates, unless their limit differs.
            object.__setattr__(self, "_gates", Gates(self.concurrency))

    @property
    def gates(self) -> Gates | None:
        """Concurrency limits; shared by all copies of the invoker."""
        return None if self.concurrency is None else self._gates

    def describe(self) -> InvocableDescription:
        """Return the description for a model."""
        if isinstance(self.source, InvocableDescription):
            return attrs.evolve(self.source, name=self.name, cache=self.cache or self.source.cache)
        return InvocableDescription(
            name=self.name,
            description=self.description,
            schema=self.schema,
            cache=self.cache,
            server_tool=self.source if isinstance(self.source, ServerTool) else None,
        )

    def check(self, arguments: JsonObject) -> tuple[ArgumentFault, ...]:
        """Return the faults of arguments; empty if they match the schema.

        This may block while it waits for another process; in an event loop, use :meth:`examine`.

        Raises:
            RequestError: The schema is invalid, or takes too long to apply.
        """
        return self._access_validator().check(arguments)

    async def examine(self, arguments: JsonObject) -> tuple[ArgumentFault, ...]:
        """Check like :meth:`check`, without blocking the event loop."""
        return await self._access_validator().examine(arguments)

    async def examine_result(self, structured: JsonValue) -> tuple[ArgumentFault, ...]:
        """Return the faults of a result as plain data, according to the output schema."""
        if self.output_schema is None:
            return ()
        validator = self._output_validator
        if validator is None:
            validator = produce_validator(self.output_schema, f"the results of {self.name}")
            object.__setattr__(self, "_output_validator", validator)
        return await validator.examine(structured)

    def _access_validator(self) -> Validator:
        validator = self._validator
        if validator is None:
            validator = produce_validator(self.schema, self.name)
            object.__setattr__(self, "_validator", validator)
        return validator


def produce_invoker(
    function: Callable[..., Any] | Invoker | InvocableDescription | ServerTool,
    *,
    name: str = "",
    description: str = "",
    schema: JsonObject | None = None,
    **options: Any,
) -> Invoker:
    """Create an invoker from a plain or asynchronous function.

    Args:
        function: The function. The annotations become the schema, and the docstring becomes the
            description. The function gets keyword arguments of the annotated types. An invoker is
            returned unchanged. A call of a description or a server tool, which have no function,
            suspends the run until the conversation has its result.
        name: The name; by default, that of the function.
        description: The description; by default, the docstring without its section on arguments.
        schema: A schema in place of the derived one; the arguments are then passed unchanged.
        options: Further fields of :class:`Invoker`; they override the options of the decorator.

    Raises:
        RequestError: The description is missing; or an annotation has no counterpart in JSON.
        TypeError: Unknown option.
    """
    if isinstance(function, Invoker):
        return function
    if isinstance(function, ServerTool):
        function = describe_server_tool(function)
    if isinstance(function, InvocableDescription):
        return _produce_external(function)
    options = {**getattr(function, MARK, {}), **options}
    name = name or options.get("name", "") or getattr(function, "__name__", "")
    description = description or options.get("description", "")
    schema = options.get("schema") if schema is None else schema
    for key in ("name", "description", "schema"):
        options.pop(key, None)
    if schema is None:
        form = _access_form(function, name)
        bind, schema, docstring = form.bind, form.schema, form.description
    else:
        from vibe_llms.invocables.schemas import produce_binder

        bind, docstring = produce_binder(function, name=name)
    return Invoker(
        name=name,
        description=description or docstring,
        schema=schema,
        function=function,
        bind=bind,
        **options,
    )


def _access_form(function: Callable[..., Any], name: str) -> FunctionForm:
    """Return the form of a function, which is cached on a decorated function.

    A wrapper copies the attributes of its function, so the key of the cache tells them apart.
    """
    from vibe_llms.invocables.schemas import derive_form

    if not hasattr(function, MARK):
        return derive_form(function, name=name)
    key = (id(function), name, function.__doc__)
    cached_key, form = getattr(function, FORM, (None, None))
    if form is None or cached_key != key:
        form = derive_form(function, name=name)
        setattr(function, FORM, (key, form))
    typed_form: FunctionForm = form
    return typed_form


def _produce_external(description: InvocableDescription) -> Invoker:
    """Create an invoker for a tool that another program executes, so that each call waits."""

    def explain(arguments: JsonObject, context: InvocationContext) -> Outcome:
        return fail(f"{description.name} is executed elsewhere and has no function here.")

    server_tool = description.server_tool
    purpose = f"The vendor's own {server_tool.name}." if server_tool else description.name
    return Invoker(
        name=description.name,
        description=description.description or purpose,
        schema=description.schema or {},
        function=explain,
        needs_approval=server_tool is None or server_tool.name in CALLER_TOOLS,
        source=description,
    )


@overload
def invocable(function: _Function, /) -> _Function: ...
@overload
def invocable(**options: Any) -> Callable[[_Function], _Function]: ...
def invocable(function: Callable[..., Any] | None = None, /, **options: Any) -> Callable[..., Any]:
    """Mark a function as a tool, with options; it stays an ordinary function.

    ::

        @invocable(effect="pure", time_limit_seconds=5)
        def weather(place: str) -> str:
            \"\"\"Return the current weather at a place.\"\"\"

    Args:
        options: The options of :func:`produce_invoker`.

    Raises:
        RequestError: As :func:`produce_invoker`, already when the function is decorated.
    """

    def mark(function: _Function) -> _Function:
        setattr(function, MARK, options)
        produce_invoker(function)
        return function

    return mark if function is None else mark(function)
