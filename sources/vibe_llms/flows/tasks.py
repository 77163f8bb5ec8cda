"""What a task file says: a goal, a model, resources, prompts and the diagram that is the program.

``reading`` makes a :class:`Task` of a file or of plain data, and finds all mistakes at once.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import attrs

from vibe_llms.configuration.definitions import NAMES
from vibe_llms.flows.kinds import (
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
    """How a condition of a goal is looked at.

    ``CATEGORY_MATCH``: the last response is of the expected category. ``CONTAINS``: it contains a
    text. ``ITERATION_LIMIT``: there were at most so many transitions. ``GOAL_MET``: it sounds like
    a success. ``CUSTOM``: a predicate of a plugin holds. ``JSON_SCHEMA``: it is JSON that conforms.
    ``JUDGE``: a model says so.
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
"""What the expected value of a condition is, where it must be a text."""


@frozen(kw_only=True)
class TargetCondition:
    """Something that must hold in the end.

    Attributes:
        description: What, in words; a model that judges is asked this.
        evaluation_type: How it is looked at.
        expected_value: What is expected: for ``CATEGORY_MATCH`` a category, for ``CONTAINS`` a
            text, for ``ITERATION_LIMIT`` a number, for ``CUSTOM`` a predicate's name, for
            ``JSON_SCHEMA`` the schema.
    """

    description: str
    evaluation_type: EvaluationType
    expected_value: Annotated[JsonValue, EXPECTED] | None = None

    def __attrs_post_init__(self) -> None:
        require(self, "condition")

    def find_mistakes(self) -> Iterator[tuple[str, str]]:
        """Yields what does not go together."""
        kind, value = self.evaluation_type, self.expected_value
        if kind in EXPECTED_TEXTS and not is_text(value):
            yield "expected_value", f"{kind} needs an expected value: {EXPECTED_TEXTS[kind]}."
        elif kind is EvaluationType.ITERATION_LIMIT and read_whole(value) is None:
            yield "expected_value", f"{kind} needs an expected value: a whole number of at least 1."
        elif kind is EvaluationType.JSON_SCHEMA and not isinstance(value, Mapping):
            yield "expected_value", f"{kind} needs an expected value: a table with the schema."


@frozen(kw_only=True)
class Goal:
    """What the task is for.

    Attributes:
        description: In words.
        target_conditions: What must hold in the end; without any, coming to the end is enough.
    """

    description: str
    target_conditions: tuple[TargetCondition, ...] = attrs.field(default=(), converter=tuple)


@frozen(kw_only=True)
class ResourceLlm:
    """Which model is asked.

    Attributes:
        provider: Any that is configured; ``mock`` is another name of ``scripted``,
            where any model that is no script is ``echo``.
        model: Its name there.
        temperature: How freely it answers; ``None`` leaves that to the model.
        max_tokens: How long an answer may become.
        api_key_env: The environment variable that holds the key; ``None`` for the usual one.
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
        """The model as the configuration knows it, ``provider:model``."""
        if self.provider != MOCK:
            return f"{self.provider}:{self.model}"
        is_plain = re.fullmatch(r"[\w-]+", self.model) is not None
        script = access_data("providers", SCRIPTED, "scripts") / f"{self.model}.toml"
        is_script = self.model.endswith(".toml") or (is_plain and script.is_file())
        return f"{SCRIPTED}:{self.model if is_script else 'echo'}"

    @property
    def controls(self) -> Mapping[str, JsonValue]:
        """The values for the model that the task has chosen."""
        chosen = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        return {name: value for name, value in chosen.items() if value is not None}


MOCK: Final = "mock"
SCRIPTED: Final = "scripted"


@frozen(kw_only=True)
class RegistryEntry:
    """Something that prompts can refer to.

    Attributes:
        name: What it is called in ``{{registry:name}}``.
        source_url: Where it is: ``https:``, or ``file:`` for a file in the task's own folder.
        category: What kind of thing it is.
        description: What it is about.
        content: The text itself, instead of an address.
        fields: Whatever else prompts shall say of it, as ``{{registry:name.field}}``.
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
        """Yields what does not go together."""
        if not self.source_url and not self.content:
            yield "", "Set 'source_url' to an address, or 'content' to the text itself."
        for name in sorted(self.fields.keys() & {*OWN_FIELDS, CONTENT}):
            yield "fields", f"{name!r} is a field of every entry; use another name."

    def survey_fields(self) -> Mapping[str, str]:
        """Returns what ``{{registry:name.field}}`` can say of it, without its content."""
        return {**{name: getattr(self, name) for name in OWN_FIELDS}, **self.fields}


OWN_FIELDS: Final = ("name", "source_url", "category", "description")
CONTENT: Final = "content"


_ENTRIES: Final = UniqueList(TableKind(RegistryEntry))


@frozen(kw_only=True)
class ResourceRegistry:
    """What prompts can refer to.

    Attributes:
        entries: Each with a name of its own.
    """

    entries: Annotated[tuple[RegistryEntry, ...], _ENTRIES] = attrs.field(
        default=(), converter=tuple
    )

    def __attrs_post_init__(self) -> None:
        require(self, "resource_registry")

    def find(self, name: str) -> RegistryEntry | None:
        """Returns the entry of a name."""
        return next((entry for entry in self.entries if entry.name == name), None)


@frozen(kw_only=True)
class PromptTemplate:
    """One step: what a model is asked.

    Attributes:
        template: The text, with names in braces; see ``interpolation``.
        role: ``user`` is said to the model, ``system`` are instructions.
        description: What the step is for.
    """

    template: str
    role: Literal["user", "system"] = "user"
    description: String = ""


@frozen(kw_only=True)
class FlowDiagram:
    """The program.

    Attributes:
        mermaid: A flowchart.
    """

    mermaid: str


@frozen(kw_only=True)
class CategoryRule:
    """How a response of a category is recognized; see ``categorizing``.

    Attributes:
        description: What it means; where it has nothing but that, a model is asked.
        keywords: Any of these words stands in the response.
        pattern: A regular expression that is found in the response.
        field: The way to a member of the response's JSON, as ``review.score``.
        equals: What that member must be; without it, it must be there and not be false.
        predicate: A predicate of a plugin, by name.
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
        """Yields what does not go together."""
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
        """Whether it can be recognized without asking a model."""
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
    """A task file, read.

    Attributes:
        goal: What it is for.
        resource_llm: Which model is asked.
        prompts: What it is asked: ``P0`` in the diagram is the first.
        flow_diagram: In which order.
        resource_registry: What prompts can refer to.
        categories: How responses are told apart, by the labels of edges; a label without a rule
            is looked for in the response itself.
        variables: For ``{{name}}`` in prompts, where a run is given nothing else.
        ensembles: Configured ensembles whose tools the model may invoke.
        mcp: Configured MCP servers, the same.
        place: The file; empty where there is none.
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
        """Where files that it names are; ``None`` where it was read from no file."""
        return Path(self.place).parent if self.place else None
