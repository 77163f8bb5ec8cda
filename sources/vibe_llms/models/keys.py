"""Table of the keys in attribute files, and the role of each."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from typing import Final

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue


class KeyRole(enum.StrEnum):
    """The role of a key in a table of attributes."""

    METADATA = "metadata"
    """Metadata of the table itself."""
    CONTROL = "control"
    """The default of the control with this name."""
    CAPABILITY = "capability"
    """Whether the model can do something: yes, no or unknown."""
    ATTRIBUTE = "attribute"
    """Any other fact about the model."""


@frozen(kw_only=True)
class AttributeKey:
    """One row of the table.

    Attributes:
        name: The key.
        role: The role of the key.
        description: Description for the manual's reference.
        definition: For a control, the definition to use if the data give only its default.
        alias_of: The key for which this one is another spelling; otherwise empty.
    """

    name: str
    role: KeyRole
    description: str
    definition: Mapping[str, JsonValue] = attrs.field(factory=dict)
    alias_of: str = ""


def _metadata(name: str, description: str) -> AttributeKey:
    return AttributeKey(name=name, role=KeyRole.METADATA, description=description)


def _control(name: str, description: str, **definition: JsonValue) -> AttributeKey:
    return AttributeKey(
        name=name, role=KeyRole.CONTROL, description=description, definition=definition
    )


def _capability(name: str, description: str, alias_of: str = "") -> AttributeKey:
    return AttributeKey(
        name=name, role=KeyRole.CAPABILITY, description=description, alias_of=alias_of
    )


def _attribute(name: str, description: str) -> AttributeKey:
    return AttributeKey(name=name, role=KeyRole.ATTRIBUTE, description=description)


_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

KEYS: Final = (
    _metadata("pattern", "A regular expression that is searched in the model's name."),
    _metadata("model", "The exact name of one model, in place of a pattern."),
    _metadata("provider", "In the user's configuration: the only provider the table applies to."),
    _metadata("genus", "Purpose of the model, such as ``converser`` or ``embedder``."),
    _metadata("controls", "Definitions of controls, by name."),
    _metadata("source", "Source of the values in the table."),
    _metadata("date", "Date on which the source was read."),
    _metadata("sources", "Source and date of single values, by key."),
    _control("temperature", "Randomness of sampling.", kind="interval", minimum=0),
    _control("top_p", "Sample from the most likely tokens up to this total probability.",
             kind="interval", minimum=0, maximum=1),
    _control("top_k", "Sample from this many most likely tokens; 0 means all.",
             kind="interval", minimum=0, grade=1),
    _control("min_p", "Minimum probability of a token, relative to the most likely one.",
             kind="interval", minimum=0, maximum=1),
    _control("seed", "Makes sampling repeatable.", kind="interval", minimum=0, grade=1),
    _control("max_tokens", "Maximum length of the answer, in tokens.",
             kind="interval", minimum=1, grade=1),
    _control("stop", "Texts that end the answer.",
             kind="sequence", element={"kind": "text"}),
    _control("repeat_penalty", "Factor that makes repeated tokens less likely; 1 has no effect.",
             kind="interval", minimum=0),
    _control("presence_penalty", "Makes tokens that occurred less likely.",
             kind="interval", minimum=-2, maximum=2),
    _control("frequency_penalty", "Makes tokens less likely the more often they occurred.",
             kind="interval", minimum=-2, maximum=2),
    _control("reasoning_effort", "Amount of reasoning before the answer.",
             kind="options", options=_EFFORTS),
    _control("reasoning_budget_tokens", "Maximum reasoning, in tokens.",
             kind="interval", minimum=0, grade=1),
    _control("reasoning_summary", "Style of the summary of the model's reasoning.",
             kind="options", options=("auto", "concise", "detailed")),
    _control("verbosity", "Intended length of the answer.",
             kind="options", options=("low", "medium", "high")),
    _control("parallel_invocations", "Whether the model may call several tools at once.",
             kind="boolean"),
    _control("background", "Whether the vendor continues the answer without a connection.",
             kind="boolean"),
    _control("service_tier", "The class of service, as the vendor names it.",
             kind="text"),
    _capability("supports_images", "Accepts images."),
    _capability("supports_audio", "Accepts audio."),
    _capability("supports_video", "Accepts video."),
    _capability("supports_files", "Accepts documents such as PDF."),
    _capability("supports_reasoning", "Shows or returns its reasoning."),
    _capability("supports_edited_reasoning",
                "Accepts its reasoning in a conversation that was edited before it."),
    _capability("supports_invocations", "Can call tools."),
    _capability("supports_forced_invocations", "Can be forced to call a tool."),
    _capability("supports_parallel_invocations", "Can call several tools at once."),
    _capability("supports_chained_invocations", "Can call tools again after a result."),
    _capability("supports_described_invocations",
                "Calls tools that are described in words; other models also get an example."),
    _capability("supports_schema", "Can be constrained to a JSON schema."),
    _capability("supports_schema_with_invocations",
                "Can be constrained to a JSON schema while it may call tools."),
    _capability("supports_schema_with_maps",
                "Can be constrained to objects of unknown keys."),
    _capability("supports_schema_with_recursion", "Can be constrained to recursive schemas."),
    _capability("supports_supervisor", "Follows instructions of a supervisor (system prompt)."),
    _capability("supports_late_supervisor", "Follows such instructions within a conversation."),
    _capability("supports_streaming", "Streams its answers."),
    _capability("supports_continuation", "Continues an answer that the caller began (prefill)."),
    _capability("supports_cache_breakpoints", "Accepts OpenAI's marks for prompt caches."),
    _capability("supports_temperature_with_top_p", "Accepts both controls at once."),
    _capability("supports_tools", "Another spelling.", alias_of="supports_invocations"),
    _attribute("title", "Display name."),
    _attribute("notice", "A note for users of the model."),
    _attribute("context_window_tokens", "Maximum input and output together, in tokens."),
    _attribute("output_limit_tokens", "Maximum output, in tokens."),
    _attribute("cache_minimum_tokens", "Minimum prefix that the vendor caches, in tokens."),
    _attribute("vector_dimensions", "Default length of an embedder's vectors."),
    _attribute("knowledge_cutoff", "End of the training data."),
    _attribute("end_date", "The day on which its vendor retires it, such as ``2026-12-11``."),
    _attribute("successor", "The model to ask in place of one that is retired."),
    _attribute("license", "License of the weights."),
    _attribute("image_types", "The media types of images that it accepts; ``*`` means any."),
    _attribute("file_types", "The media types of documents that it accepts; ``*`` means any."),
    _attribute("token_encoding", "The public encoding of its tokenizer."),
    _attribute("image_tokens", "The rule that computes the tokens of an image from its size."),
)  # fmt: skip
"""The table. A key without a row is a control if the data define one of its name, a capability
if it begins with ``supports_``, and otherwise an attribute.
"""

KEYS_BY_NAME: Final = {key.name: key for key in KEYS}

CAPABILITIES: Final = tuple(
    key.name for key in KEYS if key.role is KeyRole.CAPABILITY and not key.alias_of
)
"""The capabilities that this package uses; the data may have more."""


def classify_key(name: str, controls: Collection[str] = ()) -> KeyRole:
    """Return the role of a key.

    Args:
        controls: Names of the controls that the data define.
    """
    if name in KEYS_BY_NAME:
        return KEYS_BY_NAME[name].role
    if name in controls:
        return KeyRole.CONTROL
    return KeyRole.CAPABILITY if name.startswith("supports_") else KeyRole.ATTRIBUTE


def resolve_spelling(name: str) -> str:
    """Return the key of which a name is another spelling; otherwise the name itself."""
    key = KEYS_BY_NAME.get(name)
    return key.alias_of if key is not None and key.alias_of else name
