"""A prompt: a template whose variables are known before rendering."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from vibe_llms.exceptions import ConfigurationError, Finding, RequestError, Stage
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.reprs import represent
from vibe_llms.instruments.prompts.inputs import Inputs
from vibe_llms.instruments.prompts.partials import PartialProblem, Partials, read_source
from vibe_llms.messages.canisters import SupervisorCanister, UserCanister
from vibe_llms.messages.contents import AnyContent, TextualContent

# Names of the two templates in the sandbox; no file of a partial can have these names.
_TEXT: Final = "\0text"
_SYSTEM: Final = "\0system"
_NO_LIMITS: Final = Limits()


class Prompt:
    """Prompt template with variables, in Jinja syntax.

    The template is read and checked when the prompt is created, so rendering cannot fail because of
    an undefined variable. Templates run in a sandbox: they can only read the values passed to them,
    and the size of their output is limited. Texts are not escaped. A line that contains only a
    ``{% … %}`` tag leaves no blank line.

    Args:
        text: The template.
        system: A template for instructions, which become a supervisor's canister before the text.
        name: The prompt's name in errors.
        partials: Templates that these two can include, by name.
        schema: The schema of the values: a JSON Schema of an object, or an attrs, dataclass,
            TypedDict or pydantic class. Its defaults replace missing values.
        limits: ``prompt_characters`` and ``prompt_seconds`` apply to each rendering.

    Attributes:
        variables: The names of all variables, including those of the partials.
        required: Variables without which the prompt cannot be rendered: at least one use has no
            ``default`` and is not guarded by ``defined``.
        schema: The JSON Schema of the values, if the prompt has one.

    Raises:
        ConfigurationError: The templates are invalid; each finding has a line and a column.
    """

    def __init__(
        self,
        text: str,
        *,
        system: str = "",
        name: str = "",
        partials: Mapping[str, str] | None = None,
        schema: JsonObject | type | None = None,
        limits: Limits = _NO_LIMITS,
    ) -> None:
        self._prepare(text, system, name, Partials(dict(partials or {})), schema, limits)

    @classmethod
    def read(
        cls,
        path: Path | str,
        *,
        system: str = "",
        name: str = "",
        partials: Mapping[str, str] | None = None,
        schema: JsonObject | type | None = None,
        limits: Limits = _NO_LIMITS,
    ) -> Self:
        """Read a prompt from a file; it can include files in the same directory or below.

        The other arguments are those of the class. Neither ``..`` nor a symbolic link can lead out
        of the directory. To keep the instructions in a file, too, include it in ``system``:
        ``system='{% include "system.md" %}'``.

        Raises:
            ConfigurationError: The file cannot be read, or is invalid.
        """
        path = Path(path)
        try:
            text = read_source(path)
        except PartialProblem as problem:
            finding = Finding(place=str(path), message=str(problem))
            raise ConfigurationError(findings=(finding,)) from problem
        prompt = cls.__new__(cls)
        sources = Partials(dict(partials or {}), path.parent)
        prompt._prepare(text, system, name or path.stem, sources, schema, limits, str(path))
        return prompt

    def _prepare(
        self,
        text: str,
        system: str,
        name: str,
        partials: Partials,
        schema: JsonObject | type | None,
        limits: Limits,
        place: str = "",
    ) -> None:
        from vibe_llms.instruments.prompts.discovery import Explorer  # Jinja imports slowly

        self.text, self.system, self.name = text, system, name
        self._arguments = (text, system, name, partials, schema, limits, place)
        self._limits = limits
        shown_name = name or "prompt"
        explorer = Explorer(partials)
        variables = [explorer.explore(_TEXT, text, place or shown_name)]
        if system:
            variables.append(explorer.explore(_SYSTEM, system, f"{shown_name} (system)"))
        self.variables = frozenset().union(*(each.known for each in variables))
        self.required = frozenset().union(*(each.required for each in variables))
        self._inputs = Inputs.produce(shown_name, self.variables, self.required, schema)
        self.schema = self._inputs.schema
        self._locations = explorer.places
        self._templates = {} if explorer.findings else explorer.compile()
        findings = explorer.findings
        if not findings:
            undescribed = self._inputs.undescribed
            findings = [Finding(place=place or shown_name, message=each) for each in undescribed]
        if findings:
            raise ConfigurationError(findings=tuple(findings))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._arguments)  # compiled templates cannot be pickled

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # it is immutable

    def __repr__(self) -> str:
        name = (("", self.name),) if self.name else ()
        return represent("Prompt", (*name, ("variables", sorted(self.variables))))

    def render(self, /, **values: Any) -> str:
        """Render the prompt to a text.

        Args:
            values: A value for each required variable, and for any of the others.

        Raises:
            RequestError: Values are missing, unknown or do not fit the schema, all reported
                together; or the template cannot process them, reported with its line.
            LimitError: Rendering takes too long, or the result is too large.
        """
        contents = self._render(_TEXT, self._inputs.check(values))
        return self._ensure_text(contents, "render_contents")

    def render_contents(self, /, **values: Any) -> tuple[AnyContent, ...]:
        """Render the prompt to contents; values that are contents, such as images, are unchanged.

        The text is split at the positions of these contents; blank parts between them are omitted.
        Raises the same errors as :meth:`render`.
        """
        return self._render(_TEXT, self._inputs.check(values))

    def compose(self, /, **values: Any) -> tuple[SupervisorCanister | UserCanister, ...]:
        """Render the prompt to canisters: the instructions, if any, and the user's message.

        Raises the same errors as :meth:`render`.
        """
        checked = self._inputs.check(values)
        canisters: list[SupervisorCanister | UserCanister] = []
        if self.system:
            rendered = self._render(_SYSTEM, checked)
            instructions = self._ensure_text(rendered, "the text, not 'system',")
            if instructions.strip():
                canisters.append(SupervisorCanister(instructions))
        canisters.append(UserCanister(self._render(_TEXT, checked)))
        return tuple(canisters)

    def _render(self, key: str, values: Mapping[str, Any]) -> tuple[AnyContent, ...]:
        from vibe_llms.instruments.prompts.rendering_budgets import RenderingBudget
        from vibe_llms.instruments.prompts.templates import render_template

        budget = RenderingBudget(self._limits)
        text = render_template(self._templates[key], self._locations, values, budget)
        contents = budget.content_marks.cut(text)
        if contents is None:
            raise RequestError(
                path=self._locations[key],
                detail=f"{self._locations[key]}: a filter changed the placeholder of a content.",
                remedy="Print contents without filters.",
                stage=Stage.EXECUTE,
            )
        return contents

    def _ensure_text(self, contents: tuple[AnyContent, ...], remedy: str) -> str:
        match contents:
            case (TextualContent(text=text),):
                return text
        raise RequestError(
            path=self._inputs.name,
            detail=f"The prompt {self._inputs.name!r} contains content other than text.",
            remedy=f"Use {remedy} for them.",
            stage=Stage.EXECUTE,
        )


def _rebuild(kind: type[Prompt], arguments: tuple[Any, ...]) -> Prompt:
    """Return the prompt that was pickled."""
    prompt = kind.__new__(kind)
    prompt._prepare(*arguments)
    return prompt
