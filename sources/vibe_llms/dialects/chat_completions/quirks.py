"""Differences between the vendors of this dialect, as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Final, Literal

import attrs

from vibe_llms.dialects.history import HistoryRules
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.tables.annotations import String
from vibe_llms.tables.kinds import FILLED

PROTOCOL: Final = "chat_completions"
"""The dialect's name, in origins and native data."""

OPENAI_FIELDS: Final[Mapping[str, str]] = {
    "max_tokens": "max_completion_tokens",
    "parallel_invocations": "parallel_tool_calls",
}
"""OpenAI's fields for the controls that have another name in its protocol."""


def _freeze(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(values)


def _add_openai_fields(fields: Mapping[str, str]) -> Mapping[str, str]:
    return {**OPENAI_FIELDS, **fields}


@frozen(kw_only=True, slots=False)  # with slots, a cached property makes all attributes slow
class Quirks:
    """One vendor's differences from OpenAI; the defaults are OpenAI's own.

    Attributes:
        fields: The provider's field for a control, if its name differs. A dot separates an object
            from its field, as in ``reasoning.effort``.
        supervisor_roles: The roles that are accepted for a system prompt, the usual one first.
        reasoning_field: Where earlier reasoning is sent back: a field such as
            ``reasoning_content``, or ``thinking`` for parts of the content; ``None`` sends back
            only what came from the provider itself.
        needs_reasoning: Whether a turn with tool calls is rejected without that field.
        switches_thinking: Whether a separate field switches thinking on and off, so that ``none``
            is not a value of the effort.
        takes_parts: Whether a message's content may be a list; otherwise texts are joined.
        takes_refusals: Whether an earlier refusal has a separate field.
        takes_null: Whether the content of a turn without text may be null; otherwise it is empty.
        takes_tools: Whether tools are supported at all.
        takes_custom: Whether custom tools, which take free text, are supported.
        takes_broken: Whether the arguments of an earlier call may be something other than a JSON
            object.
        media: The kinds of parts that are accepted in addition to text.
        file_part: How a file is sent by its URL: as ``file`` (OpenRouter), as a kind of part such
            as ``file_url``, or not at all.
        flat_file_ids: Whether the id of an uploaded file is a field of the part (Mistral).
        id_pattern, alias_length, alias_prefix: The rules for the ids of tool calls; see
            :class:`vibe_llms.dialects.history.HistoryRules`.
        name_pattern: A regular expression for valid names of tools.
        names_results: Whether a tool result must name its tool.
        alternates: Whether user and assistant must take turns, the user first.
        bridges_results: Whether an assistant message must stand between a tool result and a user
            message.
        stream_options: Whether usage in a stream must, and can, be requested.
        schema_form: How an answer is constrained to a schema: with the type ``json_schema``, only
            with ``json_object``, or with vLLM's ``structured_outputs``.
        takes_strict: Whether schemas may be marked as strict.
        required_word: The value that requires a tool call: ``required`` or ``any``.
        refused_fields: Fields of a request in OpenAI's older form that the model rejects.
        maximum_stops: How many stop sequences are accepted; ``None`` for any number.
        cache_marks: The vendor's cache hints: ``openai`` (a key, lifetimes and breakpoints),
            ``cache_control`` (Anthropic's marks, as at OpenRouter), or none.
        server_tools: The service whose server tools it has, as named in
            ``data/dialects/server_tools.toml``; empty if it has none.
        siblings: Other interfaces of the same service, with the same uploaded files; see
            :class:`vibe_llms.dialects.ledger.Ledger`.
    """

    fields: Mapping[str, str] = attrs.field(factory=dict, converter=_add_openai_fields)
    supervisor_roles: Annotated[tuple[str, ...], FILLED] = attrs.field(
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
    takes_broken: bool = True
    media: Annotated[tuple[str, ...], FILLED] = attrs.field(
        default=("image_url", "input_audio", "file"), converter=_freeze
    )
    file_part: str | None = None
    flat_file_ids: bool = False
    id_pattern: str = ".+"
    alias_length: int = 24
    alias_prefix: String = "call_"
    name_pattern: str = "[a-zA-Z0-9_-]{1,64}"
    names_results: bool = False
    alternates: bool = False
    bridges_results: bool = False
    stream_options: bool = True
    schema_form: Literal["json_schema", "json_object", "structured_outputs"] = "json_schema"
    takes_strict: bool = True
    required_word: str = "required"
    refused_fields: Annotated[tuple[str, ...], FILLED] = attrs.field(default=(), converter=_freeze)
    maximum_stops: int | None = 4
    cache_marks: Literal["", "openai", "cache_control"] = "openai"
    server_tools: String = ""
    siblings: tuple[tuple[str, str], ...] = ()

    @cached_property
    def marks(self) -> tuple[str, ...] | None:
        """Texts in a request in OpenAI's form that may be unsuitable for the vendor.

        They are for a body decoded as Latin-1. A request without any of them can be passed through.
        ``None`` if the vendor differs from OpenAI in more than ids and refused fields, so that
        every request must be checked.
        """
        without_these = attrs.evolve(
            self,
            id_pattern=".+",
            cache_marks="openai",
            siblings=(),
            refused_fields=(),
            server_tools="",
        )
        if without_these != Quirks():
            return None
        refused = (f'"{field}"'.encode().decode("latin-1") for field in self.refused_fields)
        return ('"tool_call', '"random_seed"', *refused)

    @cached_property
    def history(self) -> HistoryRules:
        """The vendor's rules for ids."""
        return HistoryRules(
            id_pattern=self.id_pattern,
            alias_length=self.alias_length,
            alias_prefix=self.alias_prefix,
        )
