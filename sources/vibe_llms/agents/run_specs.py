"""Specifications of runs, and the rules for them."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import attrs

from vibe_llms.agents.deferred_requests import VENDOR
from vibe_llms.agents.queues import DEFAULT_QUEUE, PRIORITY, QUEUE
from vibe_llms.application import Application
from vibe_llms.engine.limits import export_limits
from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.suggestions import end_among
from vibe_llms.messages.requests import WindowPolicy
from vibe_llms.tables.kinds import Choice, is_whole
from vibe_llms.tables.reading import read_table, require

if TYPE_CHECKING:
    from vibe_llms.flows.tasks import Task

CHANNEL = Choice(("", VENDOR))
WINDOW = Choice(("", *get_args(WindowPolicy)))
_IDENTITY_DIGITS = 32
_TIME = "run_seconds"


def _list_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(names)


@frozen(kw_only=True)
class RunSpec:
    """Specification of a run, given by its caller.

    Attributes:
        model: The address of the model; empty for the configured one. Replaces the model of a
            flow's task.
        ensembles: The names of the ensembles that the run may invoke.
        skills: Names of skills whose instructions, tools, model and controls the run uses.
        controls: Parameters of the requests to the model, such as ``temperature``.
        schema: JSON Schema to which answers must conform.
        task: A task as plain data; makes the run a flow.
        variables: Variables of the task.
        limits: Limits of the run, by the names ``run_…``; others are as configured. For a flow:
            steps, tokens, cents and seconds; the configured limits apply to each visit.
        attached: Stop the run when there were no watchers for a while, unless the run is detached.
        queue: The queue of a runner with workers; ``runs`` by default.
        priority: In a queue, the highest priority goes first.
        channel: The route of the requests, not a channel of the library: ``vendor`` defers each
            request to batches of the model's vendor, which answer within a day at a lower price.
            Invalid for a flow.
        window: What happens at the model's window: ``stop``, ``drop``, ``summarize`` or ``vendor``;
            empty for the configured setting. With ``summarize``, the run continues in a fork that
            begins with a summary.
        compact: Continue a conversation in such a fork now, even if its window is not full.
        stays: Keep the run in its conversation, for clients that cannot follow it. At the window, a
            summary is sent in place of the oldest turns.
    """

    model: str = ""
    ensembles: tuple[str, ...] = attrs.field(default=(), converter=_list_names)
    skills: tuple[str, ...] = attrs.field(default=(), converter=_list_names)
    controls: Mapping[str, JsonValue] = attrs.field(factory=dict)
    schema: Mapping[str, JsonValue] | None = None
    task: Mapping[str, JsonValue] | None = None
    variables: Mapping[str, JsonValue] = attrs.field(factory=dict)
    limits: Mapping[str, JsonValue] = attrs.field(factory=dict)
    attached: bool = False
    queue: Annotated[str, QUEUE] = DEFAULT_QUEUE
    priority: Annotated[int, PRIORITY] = 0
    channel: Annotated[str, CHANNEL] = ""
    window: Annotated[str, WINDOW] = ""
    compact: bool = False
    stays: bool = False

    def __attrs_post_init__(self) -> None:
        require(self, "run")

    def export(self) -> dict[str, JsonValue]:
        """Return the values that differ from the defaults, as plain data."""
        plain: dict[str, JsonValue] = {
            "model": self.model,
            "ensembles": list(self.ensembles),
            "skills": list(self.skills),
            "controls": dict(self.controls),
            "schema": None if self.schema is None else dict(self.schema),
            "task": None if self.task is None else dict(self.task),
            "variables": dict(self.variables),
            "limits": dict(self.limits),
            "attached": self.attached,
            "queue": "" if self.queue == DEFAULT_QUEUE else self.queue,
            "priority": self.priority,
            "channel": self.channel,
            "window": self.window,
            "compact": self.compact,
            "stays": self.stays,
        }
        chosen: dict[str, JsonValue] = {name: value for name, value in plain.items() if value}
        return chosen or {"ensembles": []}  # an empty table would mean that no run was requested

    def bound(self, limits: Limits) -> Limits:
        """Return limits with those of this run."""
        return attrs.evolve(limits, **cast("Any", dict(self.limits)))


def read_run_spec(data: object) -> RunSpec:
    """Read a specification from plain data.

    Raises:
        ConfigurationError: The data is invalid; names all faults.
    """
    return read_table(RunSpec, data, "run")


@frozen(kw_only=True)
class RunRules:
    """Rules for runs.

    Attributes:
        providers: The allowed providers; ``None`` for all.
        ensembles: The allowed ensembles; ``None`` for all.
        limits: Upper bounds of the limits of a run.
    """

    providers: frozenset[str] | None = None
    ensembles: frozenset[str] | None = None
    limits: Limits = attrs.field(factory=Limits)

    def complete(self, spec: RunSpec, application: Application) -> RunSpec:
        """Return the specification with a model: the named one, or a default.

        The configured default model is used if its provider is allowed; otherwise the model is that
        of the only allowed provider. For a gateway, that is the gateway's default model.
        """
        if spec.model or spec.task is not None or self.providers is None:
            return spec
        if application.resolve_address("").provider in self.providers or len(self.providers) != 1:
            return spec
        return attrs.evolve(spec, model=next(iter(self.providers)))

    def check(self, spec: RunSpec, application: Application) -> None:
        """Check a specification; a task is checked completely, without opening files for it.

        Raises:
            ConfigurationError: The specification asks for things that are not allowed, or its task
                is invalid; names all faults.
            UnknownNameError: The model or provider is unknown.
        """
        findings = [*self._check_names(spec.ensembles, "run.ensembles")]
        findings += self._check_limits(spec)
        if spec.task is not None and spec.channel:
            message = "Flows cannot use a vendor's batches."
            findings.append(Finding(place="run.channel", message=message))
        if spec.task is not None and (spec.window or spec.compact):
            message = (
                "A flow has no window to compact; its task chooses the settings of its visits."
            )
            findings.append(Finding(place="run.window", message=message))
        if spec.variables and spec.task is None:
            findings.append(Finding(place="run.variables", message="Only tasks have variables."))
        if spec.task is None:
            findings += self._check_model(spec.model, application, "run.model")
        else:
            findings += self._check_task(spec, application)
        if findings:
            raise ConfigurationError(findings=tuple(findings))

    def _check_task(self, spec: RunSpec, application: Application) -> Iterable[Finding]:
        from vibe_llms.flows.task_reading import examine_task  # the first flow imports it

        reading = examine_task(spec.task or {}, strict=False)
        if reading.errors:
            return reading.errors
        task = reading.task
        address = spec.model or task.resource_llm.address
        place = "run.model" if spec.model else "run.task.resource_llm"
        return [
            *self._check_model(address, application, place),
            *self._refuse_own_ensembles(task.ensembles),
            *self._check_names(task.mcp, "run.task.mcp"),
            *_refuse_local_access(task),
        ]

    def _check_model(self, address: str, application: Application, place: str) -> Iterable[Finding]:
        resolved = application.resolve_address(address)
        allowed = frozenset(application.configuration.providers)
        if self.providers is not None:
            allowed &= self.providers
        if resolved.provider not in allowed:
            known = end_among(resolved.provider, sorted(allowed))
            yield Finding(
                place=place, message=f"Runs may not use the provider {resolved.provider}{known}"
            )
        else:
            application.ensure_configured(address)

    def _check_names(self, names: Iterable[str], place: str) -> Iterable[Finding]:
        for name in names:
            if self.ensembles is not None and name not in self.ensembles:
                known = end_among(name, sorted(self.ensembles))
                yield Finding(place=place, message=f"Runs may not use the ensemble {name!r}{known}")

    def _refuse_own_ensembles(self, names: Iterable[str]) -> Iterable[Finding]:
        """Refuse a task's own ensembles if names are restricted: they would run in this process."""
        if self.ensembles is not None and (listed := ", ".join(names)):
            message = (
                f"A task cannot name {listed} here; name MCP servers, in the task's mcp or in the "
                "request."
            )
            yield Finding(place="run.task.ensembles", message=message)

    def _check_limits(self, spec: RunSpec) -> Iterable[Finding]:
        bounds = export_limits(self.limits)
        if spec.task is not None:
            from vibe_llms.flows.budgets import BUDGETS

            # these hold for each of its visits; it may have many
            bounds = dict.fromkeys(BUDGETS.values(), sys.maxsize) | {_TIME: bounds[_TIME]}
        for name, value in spec.limits.items():
            place = f"run.limits.{name}"
            if name not in bounds:
                yield Finding(place=place, message=f"Unknown limit{end_among(name, bounds)}")
            elif not is_whole(value) or not 0 < cast(int, value) <= bounds[name]:
                yield Finding(
                    place=place, message=f"The value must be between 1 and {bounds[name]}."
                )


def _refuse_local_access(task: Task) -> Iterable[Finding]:
    """Find parts of a task that would read this machine's files, pages or environment."""
    if task.resource_llm.api_key_env is not None:
        yield Finding(
            place="run.task.resource_llm.api_key_env",
            message="A request for a run cannot contain a key.",
        )
    for index, entry in enumerate(task.resource_registry.entries):
        if entry.source_url:
            yield Finding(
                place=f"run.task.resource_registry.entries[{index}].source_url",
                message="A request for a run cannot refer to files or pages; include the content.",
            )


def derive_identity(subject: str, key: str) -> str:
    """Return the id of a run that is requested with a key: the same each time."""
    source = f"{len(subject)}:{subject}{key}".encode()
    return hashlib.sha256(source).hexdigest()[:_IDENTITY_DIGITS]
