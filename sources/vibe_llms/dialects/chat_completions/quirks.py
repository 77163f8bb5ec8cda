"""What vendors of this dialect do differently, as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final, Literal

import attrs

from vibe_llms.dialects.history import HistoryRules

PROTOCOL: Final = "chat_completions"
"""The dialect's stable word, in origins and beside native blocks."""

FIELDS: Final[Mapping[str, str]] = {
    "max_tokens": "max_completion_tokens",
    "parallel_invocations": "parallel_tool_calls",
}
"""OpenAI's own fields for the controls that it calls otherwise."""


def _freeze(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(words)


def _complete(fields: Mapping[str, str]) -> Mapping[str, str]:
    return {**FIELDS, **fields}


@attrs.frozen(kw_only=True)
class Quirks:
    """One vendor's habits; the defaults are OpenAI's own.

    Attributes:
        fields: From a control to the vendor's field for it, where that has another name; a dot
            leads into an object, as in ``reasoning.effort``.
        supervisor_roles: The roles of instructions that are taken, the usual one first.
        reasoning_field: Where the vendor wants earlier reasoning back: a field such as
            ``reasoning_content``, or ``thinking`` for parts of the content; ``None`` where it
            takes none but what came from itself.
        needs_reasoning: Whether a turn with invocations is refused without that field.
        switches_thinking: Whether thinking is switched by a field of its own, so that the effort
            ``none`` is no effort there.
        takes_parts: Whether a message's content may be a list; else texts are joined.
        takes_refusals: Whether an earlier refusal has a field of its own.
        takes_null: Whether the content of a turn without words may be null; else it is empty.
        takes_tools: Whether anything can be invoked at all.
        takes_custom: Whether there are custom tools, which take free text.
        media: The kinds of parts that are taken beside text.
        file_part: How a file by its URL goes: ``file`` as OpenRouter has it, a kind of part such
            as ``file_url``, or not at all.
        id_pattern, alias_length, alias_prefix: What ids of invocations must look like; see
            :class:`vibe_llms.dialects.history.HistoryRules`.
        names_results: Whether a result must name its invocable.
        alternates: Whether user and assistant must take turns, the user first.
        bridges_results: Whether a word of the model must stand between a result and the user.
        stream_options: Whether usage in a stream must, and can, be asked for.
        schema_form: How an answer is held to a schema: by the type ``json_schema``, by no more
            than ``json_object``, or by vLLM's ``structured_outputs``.
        takes_strict: Whether schemas may be marked as strict.
        required_word: That some tool must be invoked: ``required`` or ``any``.
        maximum_stops: How many stop sequences are taken; ``None`` is no bound.
    """

    fields: Mapping[str, str] = attrs.field(factory=dict, converter=_complete)
    supervisor_roles: tuple[str, ...] = attrs.field(
        default=("system", "developer"), converter=_freeze
    )
    reasoning_field: str | None = None
    needs_reasoning: bool = False
    switches_thinking: bool = False
    takes_parts: bool = True
    takes_refusals: bool = True
    takes_null: bool = True
    takes_tools: bool = True
    takes_custom: bool = True
    media: tuple[str, ...] = attrs.field(
        default=("image_url", "input_audio", "file"), converter=_freeze
    )
    file_part: str | None = None
    id_pattern: str = ".+"
    alias_length: int = 24
    alias_prefix: str = "call_"
    names_results: bool = False
    alternates: bool = False
    bridges_results: bool = False
    stream_options: bool = True
    schema_form: Literal["json_schema", "json_object", "structured_outputs"] = "json_schema"
    takes_strict: bool = True
    required_word: str = "required"
    maximum_stops: int | None = 4

    @cached_property
    def history(self) -> HistoryRules:
        """What the vendor asks of ids."""
        return HistoryRules(
            id_pattern=self.id_pattern,
            alias_length=self.alias_length,
            alias_prefix=self.alias_prefix,
        )
