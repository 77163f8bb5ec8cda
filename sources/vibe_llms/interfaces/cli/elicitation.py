"""Ask the user the questions of MCP servers, on the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.interfaces.cli.keyboard import Screen, ask_text_async, can_ask, take_turn
from vibe_llms.interfaces.cli.output import reveal, reveal_lines, style
from vibe_llms.invocables.mcp.elicitation import Action, ElicitationAnswer, FormField, Question

_REFUSAL = "/no"


@define
class TerminalElicitor:
    """``Elicitor`` for the user at the terminal; without a terminal, it declines everything.

    Attributes:
        screen: Display that is paused during a question.
        has_user: Returns whether a user can be asked.
    """

    screen: Screen | None = None
    has_user: Callable[[], bool] = can_ask

    async def elicit(self, question: Question) -> ElicitationAnswer:
        """Ask for one value after another."""
        if not self.has_user():
            return ElicitationAnswer(action=Action.DECLINE)
        async with take_turn(self.screen):
            return await _ask(question)


async def _ask(question: Question) -> ElicitationAnswer:
    _write(f"The MCP server {question.server} asks:", "yellow", "bold")
    sys.stderr.write(reveal_lines(question.message, indent="  ") + "\n")
    for fault in question.faults:
        _write(f"Invalid value: {str(fault).removeprefix('arguments.')}", "red")
    if question.address:
        _write(f"It asks you to open {question.address}")
        answer = await ask_text_async("Open it? Press Enter when you are done there, or type no: ")
        if answer is None:  # the end of input is not consent
            return ElicitationAnswer(action=Action.CANCEL)
        is_accepted = answer.lower() in ("", "y", "yes")
        return ElicitationAnswer(action=Action.ACCEPT if is_accepted else Action.DECLINE)
    _write(f"The server receives what you type here; {_REFUSAL} declines.", "dim")
    values: dict[str, JsonValue] = {}
    for field in question.fields:
        text = await ask_text_async(_compose_prompt(field))
        if text is None:
            return ElicitationAnswer(action=Action.CANCEL)
        if text == _REFUSAL:
            return ElicitationAnswer(action=Action.DECLINE)
        if text:
            values[field.name] = _read_value(field, text)
    return ElicitationAnswer(values=values)


def _compose_prompt(field: FormField) -> str:
    parts = [field.title or field.name]
    if field.description:
        parts.append(f"({field.description})")
    if field.choices:
        parts.append(f"[{', '.join(choice.value for choice in field.choices)}]")
    if field.default is not None:
        parts.append(f"[Enter: {json.dumps(field.default, ensure_ascii=False)}]")
    elif not field.is_required:
        parts.append("[Enter: nothing]")
    return reveal(" ".join(" ".join(parts).split())) + ": "


def _read_value(field: FormField, text: str) -> JsonValue:
    """Convert typed text to the requested type; the schema rejects invalid values later."""
    match field.kind:
        case "boolean":
            answers: dict[str, JsonValue] = {"y": True, "yes": True, "n": False, "no": False}
            return answers.get(text.lower(), text)
        case "number" | "integer":
            try:
                number: JsonValue = json.loads(text)
            except ValueError:
                return text
            return number
        case "choices":
            return [each.strip() for each in text.split(",")]
    return text


def _write(text: str, *styles: str) -> None:
    sys.stderr.write(style(reveal(text), *styles, stream=sys.stderr) + "\n")
