"""Which key of an attribute file is what: the one table that decides it."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from typing import Final

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue


class KeyRole(enum.StrEnum):
    """What a key in a table of attributes sets."""

    WORD = "word"
    """Says something about the table itself."""
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
        means: For the reference in the manual.
        definition: For a control: its definition where the data give only its default.
        stands_for: For another spelling: the key that it sets.
    """

    name: str
    role: KeyRole
    means: str
    definition: Mapping[str, JsonValue] = attrs.field(factory=dict)
    stands_for: str = ""


def _word(name: str, means: str) -> AttributeKey:
    return AttributeKey(name=name, role=KeyRole.WORD, means=means)


def _control(name: str, means: str, **definition: JsonValue) -> AttributeKey:
    return AttributeKey(name=name, role=KeyRole.CONTROL, means=means, definition=definition)


def _capability(name: str, means: str, stands_for: str = "") -> AttributeKey:
    return AttributeKey(name=name, role=KeyRole.CAPABILITY, means=means, stands_for=stands_for)


def _attribute(name: str, means: str) -> AttributeKey:
    return AttributeKey(name=name, role=KeyRole.ATTRIBUTE, means=means)


_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

KEYS: Final = (
    _word("pattern", "A regular expression that is searched in the model's name."),
    _word("model", "The exact name of one model, in place of a pattern."),
    _word("provider", "In the user's configuration: the only provider it concerns."),
    _word("genus", "What the model is for; ``converser`` is the only genus so far."),
    _word("controls", "A table from the name of a control to its definition."),
    _word("source", "Where the values of the table were read."),
    _word("date", "When they were read there."),
    _word("sources", "A table from a key to the source and date of its value alone."),
    _control("temperature", "How freely tokens are drawn.", kind="interval", minimum=0),
    _control("top_p", "Draw from the likeliest tokens of this total probability.",
             kind="interval", minimum=0, maximum=1),
    _control("top_k", "Draw from that many likeliest tokens; 0 from all.",
             kind="interval", minimum=0, grade=1),
    _control("min_p", "Draw no token less likely than this part of the likeliest.",
             kind="interval", minimum=0, maximum=1),
    _control("seed", "Makes the drawing repeatable.", kind="interval", minimum=0, grade=1),
    _control("max_tokens", "The longest answer, in tokens.",
             kind="interval", minimum=1, grade=1),
    _control("stop", "Texts that end the answer.",
             kind="sequence", element={"kind": "text"}),
    _control("repeat_penalty", "How much less likely a repeated token becomes; 1 is not at all.",
             kind="interval", minimum=0),
    _control("presence_penalty", "Lowers tokens that occurred.",
             kind="interval", minimum=-2, maximum=2),
    _control("frequency_penalty", "Lowers tokens by how often they occurred.",
             kind="interval", minimum=-2, maximum=2),
    _control("reasoning_effort", "How hard the model thinks before it answers.",
             kind="options", options=_EFFORTS),
    _control("reasoning_budget_tokens", "How much the model may think, in tokens.",
             kind="interval", minimum=0, grade=1),
    _control("reasoning_summary", "How its reasoning is told again in short.",
             kind="options", options=("auto", "concise", "detailed")),
    _control("verbosity", "How long an answer the model aims at.",
             kind="options", options=("low", "medium", "high")),
    _control("parallel_invocations", "Whether several tools may be asked for at once.",
             kind="boolean"),
    _control("service_tier", "Which class of service is asked for, in the vendor's words.",
             kind="text"),
    _capability("supports_images", "Takes pictures."),
    _capability("supports_audio", "Takes sound."),
    _capability("supports_video", "Takes moving pictures."),
    _capability("supports_files", "Takes documents such as PDF."),
    _capability("supports_reasoning", "Shows or returns its reasoning."),
    _capability("supports_invocations", "Can ask for tools to be invoked."),
    _capability("supports_parallel_invocations", "Can ask for several at once."),
    _capability("supports_chained_invocations", "Can ask for tools again after a result."),
    _capability("supports_described_invocations",
                "Asks for tools that it is told of in words; if not, it is shown how."),
    _capability("supports_schema", "Can be held to a JSON schema."),
    _capability("supports_schema_with_invocations",
                "Can be held to one while it may ask for tools."),
    _capability("supports_schema_with_maps",
                "Can be held to one with objects whose names are not known beforehand."),
    _capability("supports_schema_with_recursion", "Can be held to one that refers to itself."),
    _capability("supports_supervisor", "Obeys instructions from a supervisor."),
    _capability("supports_late_supervisor", "Obeys such instructions amid a conversation."),
    _capability("supports_streaming", "Answers bit by bit."),
    _capability("supports_continuation", "Continues an answer that was begun for it."),
    _capability("supports_temperature_with_top_p", "Takes both controls at once."),
    _capability("supports_tools", "Another spelling.", stands_for="supports_invocations"),
    _attribute("title", "The name to show."),
    _attribute("notice", "What whoever begins to talk with it should know."),
    _attribute("context_window_tokens", "Input and output together, at most."),
    _attribute("output_limit_tokens", "Output, at most."),
    _attribute("knowledge_cutoff", "Until when the model knows the world."),
    _attribute("end_date", "The day on which its vendor retires it, such as ``2026-12-11``."),
    _attribute("successor", "The model to ask in place of one that is retired."),
    _attribute("license", "Under which the weights are."),
    _attribute("image_types", "The media types of pictures that it takes; ``*`` stands for any."),
    _attribute("file_types", "The media types of documents that it takes; ``*`` stands for any."),
    _attribute("token_encoding", "The public encoding that makes its tokens."),
    _attribute("image_tokens", "The rule by which the size of a picture becomes tokens."),
)  # fmt: skip
"""The table. A key without a row is a control if the data define one of its name, a capability
if it begins with ``supports_``, and else an attribute."""

KEYS_BY_NAME: Final = {key.name: key for key in KEYS}

CAPABILITIES: Final = tuple(
    key.name for key in KEYS if key.role is KeyRole.CAPABILITY and not key.stands_for
)
"""The capabilities that code here asks for; data may know more."""


def classify_key(name: str, controls: Collection[str] = ()) -> KeyRole:
    """Tells what a key sets; ``controls`` are the names of those that the data define."""
    if name in KEYS_BY_NAME:
        return KEYS_BY_NAME[name].role
    if name in controls:
        return KeyRole.CONTROL
    return KeyRole.CAPABILITY if name.startswith("supports_") else KeyRole.ATTRIBUTE


def resolve_spelling(name: str) -> str:
    """Returns the key which another spelling of it stands for; any other key itself."""
    key = KEYS_BY_NAME.get(name)
    return key.stands_for if key is not None and key.stands_for else name
