"""Maximum tokens of a flow's texts: templates, and responses of nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import attrs

from vibe_llms.flows.interpolation import Reference, Template
from vibe_llms.flows.invoking import InvocationTemplate
from vibe_llms.flows.registry_contents import CONTENT_BYTES
from vibe_llms.flows.tasks import CONTENT, Task
from vibe_llms.flows.tool_checks import Tools
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.limits import Limits
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.controls import IntervalControl
from vibe_llms.models.counting import (
    INVOCABLES_OVERHEAD,
    MESSAGE_OVERHEAD,
    PRIMING_OVERHEAD,
    count_invocable,
)
from vibe_llms.models.tokens import TokenCount, count_text

_NUMBER: Final = 10
"""Tokens of a number, such as the round of a loop."""

_BYTES: Final = 4
"""Minimum bytes per token of a text from the web or of a tool, unless it is crafted."""

_RESULT: Final = 100_000
"""Maximum characters of a tool's result if its limit is unknown: the default limit."""

_UNKNOWN_OUTPUT: Final = (
    "the length of the model's answers is unknown; set 'max_tokens' in 'resource_llm'."
)


@frozen(kw_only=True, eq=False)
class Provision:
    """Resources of a run on which its bound depends.

    Attributes:
        max_iterations: Maximum number of visits.
        model: Model to use instead of those of the tasks, as ``provider:model``.
        attributes: Attributes of the model; without them, only the task limits the length of a
            response.
        tools: Tools that models may invoke, by name, as far as they are known.
        variables: The caller's values for ``{{name}}``.
        contents: Contents of registry entries, as far as they are known.
        limits: Limits of one visit.
    """

    max_iterations: int = 1000
    model: str | None = None
    attributes: ModelAttributes | None = None
    tools: Tools = attrs.field(factory=dict)
    variables: Mapping[str, JsonValue] = attrs.field(factory=dict)
    contents: Mapping[str, str] = attrs.field(factory=dict)
    limits: Limits = Limits()


@define
class Sizer:
    """Estimator of the maximum tokens of texts; ``None`` stands for unknown.

    Attributes:
        variable_sizes: Tokens of each variable of which only the size is known.
        reasons: Why something is unknown, a sentence each; grows.
    """

    task: Task
    provision: Provision
    variable_sizes: Mapping[str, int | None]
    responses: dict[str, int | None] = attrs.field(factory=dict)
    reasons: dict[str, None] = attrs.field(factory=dict)

    @property
    def address(self) -> str:
        """Model that is used, as ``provider:model``."""
        return self.provision.model or self.task.resource_llm.address

    def measure_text(self, text: str) -> int:
        """Return the tokens of a text, including the possible error of the count."""
        return _add_error(count_text(text, self.provision.attributes))

    def measure_value(self, value: JsonValue) -> int:
        """Return the tokens of a variable, which is written as JSON if it is not a text."""
        plain = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return self.measure_text(plain)

    def measure_output(self) -> int | None:
        """Return the maximum tokens of one response of the model."""
        limit, attributes = self.task.resource_llm.max_tokens, self.provision.attributes
        if limit is not None:
            return limit
        if attributes is not None:
            control = attributes.access_control("max_tokens")
            known: list[object] = [attributes.access_value("output_limit_tokens")]
            if isinstance(control, IntervalControl):
                known = [control.default, *known, control.maximum]
            known.append(attributes.access_value("context_window_tokens"))
            for value in known:
                if isinstance(value, int) and not isinstance(value, bool):
                    return value
        self.note_unknown(_UNKNOWN_OUTPUT)
        return None

    def measure_window(self, tokens: int | None) -> int | None:
        """Return the tokens of a request, limited to the model's window."""
        attributes = self.provision.attributes
        window = attributes.access_value("context_window_tokens") if attributes else None
        if not isinstance(window, int) or isinstance(window, bool):
            return tokens
        return window if tokens is None else min(tokens, window)

    def measure_tool(self, invocation: InvocationTemplate) -> int | None:
        """Return the maximum tokens of a tool's result."""
        invoker = self.provision.tools.get(invocation.tool)
        if invoker is None:
            self.note_unknown(f"the size of results of the tool {invocation.tool!r} is unknown.")
            return None
        return invoker.output_limit_characters // _BYTES

    def measure_results(self) -> int:
        """Return the maximum tokens of the result of any tool."""
        known = [each.output_limit_characters for each in self.provision.tools.values()]
        return max(known, default=_RESULT) // _BYTES

    def measure_tools(self) -> int:
        """Return the tokens of the tool definitions sent to the model."""
        tools = self.provision.tools.values()
        if not tools:
            return 0
        counts = (count_invocable(each.describe(), self.provision.attributes) for each in tools)
        return _add_error(sum(counts, INVOCABLES_OVERHEAD))

    def measure_template(self, template: Template) -> int | None:
        """Return the maximum tokens of a template, as a message."""
        sizes = [
            self._measure_reference(part)
            if isinstance(part, Reference)
            else self.measure_text(part)
            for part in template.parts
        ]
        return add(*sizes, _add_error(MESSAGE_OVERHEAD + PRIMING_OVERHEAD))

    def _measure_reference(self, reference: Reference) -> int | None:
        name, provision = reference.name, self.provision
        if reference.source == "loop":
            return _NUMBER
        if reference.source == "response":
            return self.responses.get(name, 0)
        if reference.source == "variable":
            if name in self.variable_sizes:
                return self.variable_sizes[name]
            variables = {**self.task.variables, **provision.variables}
            if name in variables:
                return self.measure_value(variables[name])
            self.note_unknown(f"the variable {name!r} is unknown.")
            return None
        entry = self.task.resource_registry.find(name)
        if entry is None:
            return 0
        if reference.field != CONTENT:
            return self.measure_text(entry.survey_fields().get(reference.field, ""))
        text = entry.content or provision.contents.get(name)
        return CONTENT_BYTES // _BYTES if text is None else self.measure_text(text)

    def note_unknown(self, reason: str) -> None:
        """Record why something is unknown."""
        self.reasons[reason] = None


def add(*sizes: int | None) -> int | None:
    """Add sizes; the sum is unknown if a part is."""
    known = [each for each in sizes if each is not None]
    return sum(known) if len(known) == len(sizes) else None


def _add_error(count: TokenCount) -> int:
    return count.tokens + count.error_tokens
