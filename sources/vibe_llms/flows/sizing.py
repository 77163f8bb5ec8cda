"""How many tokens the texts of a flow may have: its templates, and what its nodes say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import attrs

from vibe_llms.flows.acting import Tools
from vibe_llms.flows.contents import CONTENT_BYTES
from vibe_llms.flows.interpolation import Reference, Template
from vibe_llms.flows.invoking import InvocationTemplate
from vibe_llms.flows.tasks import CONTENT, Task
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
"""The tokens of a number, such as the round of a loop."""

_BYTES: Final = 4
"""A text from the web or of a tool has at least so many bytes a token, unless it is made not to."""

_RESULT: Final = 100_000
"""How many characters the result of a tool may have of which nobody knows more: the usual limit."""

_UNKNOWN_OUTPUT: Final = (
    "the length of the model's answers is unknown; set 'max_tokens' in 'resource_llm'."
)


@frozen(kw_only=True, eq=False)
class Provision:
    """What a run will have that its bound depends on.

    Attributes:
        max_iterations: How many visits it may have.
        model: Who is asked in place of those that tasks name, as ``provider:model``.
        attributes: Of the model; without them nothing but the task says how long an answer may be.
        tools: What models may invoke, by name, as far as that is known.
        variables: What the caller gives for ``{{name}}``.
        contents: Of entries of the registry, as far as they are known.
        limits: What bounds one visit.
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
    """Measures texts in tokens, at their longest; ``None`` where nobody knows.

    Attributes:
        given: How many tokens each variable has that is known by its size alone.
        reasons: Why something is not known, a sentence each; grows.
    """

    task: Task
    provision: Provision
    given: Mapping[str, int | None]
    responses: dict[str, int | None] = attrs.field(factory=dict)
    reasons: dict[str, None] = attrs.field(factory=dict)

    @property
    def address(self) -> str:
        """Who is asked, as ``provider:model``."""
        return self.provision.model or self.task.resource_llm.address

    def measure_text(self, text: str) -> int:
        """Returns the tokens of a text, as far off as the count may be included."""
        return _top(count_text(text, self.provision.attributes))

    def measure_value(self, value: JsonValue) -> int:
        """Returns the tokens of a variable, which is written as JSON where it is no text."""
        plain = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return self.measure_text(plain)

    def measure_output(self) -> int | None:
        """Returns how long one answer of the model may be."""
        said, attributes = self.task.resource_llm.max_tokens, self.provision.attributes
        if said is not None:
            return said
        if attributes is not None:
            control = attributes.access_control("max_tokens")
            known: list[object] = [attributes.access_value("output_limit_tokens")]
            if isinstance(control, IntervalControl):
                known = [control.default, *known, control.maximum]
            known.append(attributes.access_value("context_window_tokens"))
            for value in known:
                if isinstance(value, int) and not isinstance(value, bool):
                    return value
        self.miss(_UNKNOWN_OUTPUT)
        return None

    def measure_window(self, tokens: int | None) -> int | None:
        """Returns how many tokens a request has that cannot exceed the model's window."""
        attributes = self.provision.attributes
        window = attributes.access_value("context_window_tokens") if attributes else None
        if not isinstance(window, int) or isinstance(window, bool):
            return tokens
        return window if tokens is None else min(tokens, window)

    def measure_tool(self, invocation: InvocationTemplate) -> int | None:
        """Returns how many tokens the result of a tool may have."""
        invoker = self.provision.tools.get(invocation.tool)
        if invoker is None:
            self.miss(f"the size of results of the tool {invocation.tool!r} is unknown.")
            return None
        return invoker.output_limit_characters // _BYTES

    def measure_results(self) -> int:
        """Returns how many tokens the result of any tool may have."""
        known = [each.output_limit_characters for each in self.provision.tools.values()]
        return max(known, default=_RESULT) // _BYTES

    def measure_tools(self) -> int:
        """Returns how many tokens the model is told about its tools."""
        tools = self.provision.tools.values()
        if not tools:
            return 0
        counts = (count_invocable(each.describe(), self.provision.attributes) for each in tools)
        return _top(sum(counts, INVOCABLES_OVERHEAD))

    def measure_template(self, template: Template) -> int | None:
        """Returns how many tokens a template may have, as a message."""
        sizes = [
            self._measure_reference(part)
            if isinstance(part, Reference)
            else self.measure_text(part)
            for part in template.parts
        ]
        return add(*sizes, _top(MESSAGE_OVERHEAD + PRIMING_OVERHEAD))

    def _measure_reference(self, reference: Reference) -> int | None:
        name, provision = reference.name, self.provision
        if reference.source == "loop":
            return _NUMBER
        if reference.source == "response":
            return self.responses.get(name, 0)
        if reference.source == "variable":
            if name in self.given:
                return self.given[name]
            variables = {**self.task.variables, **provision.variables}
            if name in variables:
                return self.measure_value(variables[name])
            self.miss(f"the variable {name!r} is unknown.")
            return None
        entry = self.task.resource_registry.find(name)
        if entry is None:
            return 0
        if reference.field != CONTENT:
            return self.measure_text(entry.survey_fields().get(reference.field, ""))
        text = entry.content or provision.contents.get(name)
        return CONTENT_BYTES // _BYTES if text is None else self.measure_text(text)

    def miss(self, reason: str) -> None:
        """Takes down why something is not known."""
        self.reasons[reason] = None


def add(*sizes: int | None) -> int | None:
    """Adds sizes; what has a part that is not known is not known."""
    known = [each for each in sizes if each is not None]
    return sum(known) if len(known) == len(sizes) else None


def _top(count: TokenCount) -> int:
    return count.tokens + count.error_tokens
