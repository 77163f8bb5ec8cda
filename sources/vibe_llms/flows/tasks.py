"""Classes of task files: a goal, a model, resources, prompts, and a diagram as the program.

``task_reading`` makes a :class:`Task` from a file or plain data, and finds all mistakes at once.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import attrs

from vibe_llms.configuration.definitions import NAMES
from vibe_llms.flows.task_kinds import (
    EXPECTED,
    KEY_VARIABLE,
    NAME,
    PATTERN,
    PLAIN,
    PROVIDER,
    TEMPERATURE,
    NamedMapping,
    UniqueList,
    is_variable,
    read_whole,
)
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.package_data import access_data
from vibe_llms.tables.annotations import Count, String, TableKind
from vibe_llms.tables.kinds import is_text
from vibe_llms.tables.reading import require


class EvaluationType(enum.StrEnum):
    """Ways of evaluating a condition of a goal.

    ``CATEGORY_MATCH``: the last response has the expected category. ``CONTAINS``: it contains a
    text. ``ITERATION_LIMIT``: the number of transitions is at most the expected one. ``GOAL_MET``:
    it sounds like a success. ``CUSTOM``: a predicate of a plugin holds. ``JSON_SCHEMA``: it is JSON
    that conforms to a schema. ``JUDGE``: a model decides.
    """

    CATEGORY_MATCH = "CATEGORY_MATCH"
    CONTAINS = "CONTAINS"
    ITERATION_LIMIT = "ITERATION_LIMIT"
    GOAL_MET = "GOAL_MET"
    CUSTOM = "CUSTOM"
    JSON_SCHEMA = "JSON_SCHEMA"
    JUDGE = "JUDGE"


EXPECTED_TEXTS: Final[Mapping[EvaluationType, str]] = {
    EvaluationType.CATEGORY_MATCH: "the name of a category",
    EvaluationType.CONTAINS: "the text that must be contained",
    EvaluationType.CUSTOM: "the name of a predicate",
}
"""Meaning of a condition's expected value, for types that expect a text."""


@frozen(kw_only=True)
class TargetCondition:
    """Condition that must hold at the end.

    Attributes:
        description: The condition in words; a judging model is asked this.
        evaluation_type: How the condition is evaluated.
        expected_value: Expected value: for ``CATEGORY_MATCH`` a category, for ``CONTAINS`` a text,
            for ``ITERATION_LIMIT`` a number, for ``CUSTOM`` a predicate's name, for ``JSON_SCHEMA``
            the schema.
    """

    description: str
    evaluation_type: EvaluationType
    expected_value: Annotated[JsonValue, EXPECTED] | None = None

    def __attrs_post_init__(self) -> None:
        require(self, "condition")

    def find_mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield values that do not fit together."""
        kind, value = self.evaluation_type, self.expected_value
        if kind in EXPECTED_TEXTS and not is_text(value):
            yield "expected_value", f"{kind} needs an expected value: {EXPECTED_TEXTS[kind]}."
        elif kind is EvaluationType.ITERATION_LIMIT and read_whole(value) is None:
            yield "expected_value", f"{kind} needs an expected value: a whole number of at least 1."
        elif kind is EvaluationType.JSON_SCHEMA and not isinstance(value, Mapping):
            yield "expected_value", f"{kind} needs an expected value: a table with the schema."


@frozen(kw_only=True)
class Goal:
    """Goal of a task.

    Attributes:
        description: The goal in words.
        target_conditions: Conditions that must hold at the end; without any, reaching the end is
            enough.
    """

    description: str
    target_conditions: tuple[TargetCondition, ...] = attrs.field(default=(), converter=tuple)


@frozen(kw_only=True)
class ResourceLlm:
    """Model of a task.

    Attributes:
        provider: Name of a configured provider; ``mock`` is an alias of ``scripted``, for which any
            model that is not a script means ``echo``.
        model: Name of the model at the provider.
        temperature: Sampling temperature; ``None`` for the model's default.
        max_tokens: Maximum tokens of a response.
        api_key_env: Environment variable with the key; ``None`` for the provider's usual one.
    """

    provider: Annotated[str, PROVIDER]
    model: str
    temperature: Annotated[float, TEMPERATURE] | None = None
    max_tokens: Count | None = None
    api_key_env: Annotated[str, KEY_VARIABLE] | None = None

    def __attrs_post_init__(self) -> None:
        require(self, "resource_llm")

    @property
    def address(self) -> str:
        """Address of the model in the configuration, ``provider:model``."""
        if self.provider != MOCK:
            return f"{self.provider}:{self.model}"
        is_plain = re.fullmatch(r"[\w-]+", self.model) is not None
        script = access_data("providers", SCRIPTED, "scripts") / f"{self.model}.toml"
        is_script = self.model.endswith(".toml") or (is_plain and script.is_file())
        return f"{SCRIPTED}:{self.model if is_script else 'echo'}"

    @property
    def controls(self) -> Mapping[str, JsonValue]:
        """Controls of the model that the task sets."""
        chosen = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        return {name: value for name, value in chosen.items() if value is not None}


MOCK: Final = "mock"
SCRIPTED: Final = "scripted"


@frozen(kw_only=True)
class RegistryEntry:
    """Resource that prompts can refer to.

    Attributes:
        name: Name in ``{{registry:name}}``.
        source_url: Address: ``https:``, or ``file:`` for a file in the task's own folder.
        category: Kind of resource.
        description: Description of the resource.
        content: Text of the resource, instead of an address.
        fields: Further values for prompts, as ``{{registry:name.field}}``.
    """

    name: Annotated[str, NAME]
    source_url: str = ""
    category: String = ""
    description: String = ""
    content: String = ""
    fields: Mapping[str, str] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        require(self, "registry")

    def find_mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield values that do not fit together."""
        if not self.source_url and not self.content:
            yield "", "Set 'source_url' to an address, or 'content' to the text itself."
        for name in sorted(self.fields.keys() & {*OWN_FIELDS, CONTENT}):
            yield "fields", f"{name!r} is a field of every entry; use another name."

    def survey_fields(self) -> Mapping[str, str]:
        """Return the values of ``{{registry:name.field}}``, without its content."""
        return {**{name: getattr(self, name) for name in OWN_FIELDS}, **self.fields}


OWN_FIELDS: Final = ("name", "source_url", "category", "description")
CONTENT: Final = "content"


_ENTRIES: Final = UniqueList(TableKind(RegistryEntry))


@frozen(kw_only=True)
class ResourceRegistry:
    """Resources that prompts can refer to.

    Attributes:
        entries: Entries with unique names.
    """

    entries: Annotated[tuple[RegistryEntry, ...], _ENTRIES] = attrs.field(
        default=(), converter=tuple
    )

    def __attrs_post_init__(self) -> None:
        require(self, "resource_registry")

    def find(self, name: str) -> RegistryEntry | None:
        """Return the entry with a name."""
        return next((entry for entry in self.entries if entry.name == name), None)


@frozen(kw_only=True)
class PromptTemplate:
    """Prompt of one step.

    Attributes:
        template: Text with references in braces; see ``interpolation``.
        role: ``user`` for a message to the model, ``system`` for instructions.
        description: Purpose of the step.
    """

    template: str
    role: Literal["user", "system"] = "user"
    description: String = ""


@frozen(kw_only=True)
class FlowDiagram:
    """Diagram of a task, which is its program.

    Attributes:
        mermaid: Text of a Mermaid flowchart.
    """

    mermaid: str


@frozen(kw_only=True)
class CategoryRule:
    """Rule that recognizes responses of a category; see ``categorizing``.

    Attributes:
        description: Meaning of the category; a rule with only a description is decided by a model.
        keywords: Words; the response contains any of them.
        pattern: Regular expression that matches within the response.
        field: Path of a member of the response's JSON, such as ``review.score``.
        equals: Expected value of that member; without it, the member must exist and not be false.
        predicate: Name of a plugin's predicate.
    """

    description: String = ""
    keywords: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    pattern: Annotated[str, PATTERN] = ""
    field: str = ""
    equals: Annotated[JsonValue, EXPECTED] | None = None
    predicate: str = ""

    def __attrs_post_init__(self) -> None:
        require(self, "category")

    def find_mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield values that do not fit together."""
        if self.equals is not None and not self.field:
            yield "equals", "'field' is missing: the member to test."
        if not (self.description or self.has_rule):
            yield (
                "",
                (
                    "The rule is empty: set 'keywords', 'pattern', 'field', 'predicate', or "
                    "a 'description' for a model to choose by."
                ),
            )
        if self.pattern:
            try:
                re.compile(self.pattern)
            except (re.error, OverflowError, RecursionError) as error:
                yield "pattern", f"Invalid regular expression: {error}."

    @property
    def has_rule(self) -> bool:
        """True if the category can be recognized without asking a model."""
        return bool(self.keywords or self.pattern or self.field or self.predicate)


_CATEGORIES: Final = NamedMapping(
    TableKind(CategoryRule),
    is_text,
    "The name of a category is empty; it must match a label of an edge.",
)
_VARIABLES: Final = NamedMapping(
    PLAIN,
    is_variable,
    "The name of a variable may contain only letters, digits and '_', and must not start "
    "with a digit.",
)


@frozen(kw_only=True, slots=False)
class Task:
    """Content of a task file.

    Attributes:
        goal: Goal of the task.
        resource_llm: Model of the task.
        prompts: Prompts; ``P0`` in the diagram is the first.
        flow_diagram: Diagram that determines their order.
        resource_registry: Resources that prompts can refer to.
        categories: Rules for categories of responses, by the labels of edges; a label without a
            rule is searched for in the response itself.
        variables: Default values for ``{{name}}`` in prompts, which a run can override.
        ensembles: Configured ensembles whose tools the model may invoke.
        mcp: Configured MCP servers whose tools the model may invoke.
        place: Path of the file; empty without one.
    """

    goal: Goal
    resource_llm: ResourceLlm
    prompts: tuple[PromptTemplate, ...] = attrs.field(converter=tuple)
    flow_diagram: FlowDiagram
    resource_registry: ResourceRegistry = attrs.field(factory=ResourceRegistry)
    categories: Annotated[Mapping[str, CategoryRule], _CATEGORIES] = attrs.field(factory=dict)
    variables: Annotated[Mapping[str, JsonValue], _VARIABLES] = attrs.field(factory=dict)
    ensembles: Annotated[tuple[str, ...], NAMES] = attrs.field(default=(), converter=tuple)
    mcp: Annotated[tuple[str, ...], NAMES] = attrs.field(default=(), converter=tuple)
    place: str = ""

    def __attrs_post_init__(self) -> None:
        require(self, "task")

    @property
    def folder(self) -> Path | None:
        """Folder of the files that it names; ``None`` if it was not read from a file."""
        return Path(self.place).parent if self.place else None
