"""Choice of the mode of structured output, with its reason."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from vibe_llms.exceptions import CapabilityError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.models.attributes import Capability, ModelAttributes
from vibe_llms.models.schema_features import MAPS, RECURSION


class Mode(enum.StrEnum):
    """Mode of structured output.

    ``NATIVE``: the vendor enforces the schema. ``TOOL``: the model makes a call whose arguments are
    the answer. ``PROMPT``: instructions in the prompt ask for the form.
    """

    NATIVE = "native"
    TOOL = "tool"
    PROMPT = "prompt"


@frozen
class ModeChoice:
    """The mode chosen for a model.

    Attributes:
        mode: The mode of structured output.
        reason: The reason, in one sentence.
    """

    mode: Mode
    reason: str

    def __str__(self) -> str:
        return f"{self.mode}: {self.reason}"


def choose_mode(
    attributes: ModelAttributes,
    requested: Mode | None = None,
    *,
    has_tools: bool = False,
    needs: Sequence[str] = (),
) -> ModeChoice:
    """Choose the strongest mode that the model is known to support.

    Args:
        requested: The mode that the user has chosen; ``None`` for the strongest one.
        has_tools: The model may make other calls before its answer.
        needs: The capabilities that the vendor needs to enforce the schema.

    Raises:
        CapabilityError: The model is known to lack the requested mode.
    """
    if requested is not None:
        return _confirm(attributes, requested, needs)
    address = attributes.address
    schema = attributes.access_capability("supports_schema")
    invocations = attributes.access_capability("supports_invocations")
    together = attributes.access_capability("supports_schema_with_invocations")
    excludes_tools = has_tools and together is Capability.NO
    lacked = _find_lacked_capability(attributes, needs)
    if schema is Capability.YES and not excludes_tools and not lacked:
        reason = f"supports schemas{_describe_source(attributes, 'supports_schema')}"
        return ModeChoice(Mode.NATIVE, f"{address} {reason}.")
    problem = {
        Capability.YES: f"{address} does not support schemas {_UNSUPPORTED_SCHEMAS[lacked]}",
        Capability.NO: f"{address} does not support schemas",
        Capability.UNKNOWN: f"It is unknown if {address} supports schemas",
    }[schema]
    if invocations is Capability.YES:
        source = _describe_source(attributes, "supports_invocations")
        return ModeChoice(Mode.TOOL, f"{problem}, but it can invoke tools{source}.")
    ability = "not able" if invocations is Capability.NO else "not known to be able"
    return ModeChoice(Mode.PROMPT, f"{problem}, and it is {ability} to invoke tools.")


_UNSUPPORTED_SCHEMAS = {
    "": "while it has tools",
    MAPS: "with maps, whose names are not known in advance",
    RECURSION: "that refer to themselves",
}
"""Kinds of schemas that a model does not support, by the capability that it lacks."""


def _find_lacked_capability(attributes: ModelAttributes, needs: Sequence[str]) -> str:
    """Return the first capability that the model is known to lack; empty for none."""
    no = Capability.NO
    return next((need for need in needs if attributes.access_capability(need) is no), "")


_REQUIRED_CAPABILITIES = {Mode.NATIVE: "supports_schema", Mode.TOOL: "supports_invocations"}


def _confirm(attributes: ModelAttributes, requested: Mode, needs: Sequence[str]) -> ModeChoice:
    lacked = _find_lacked_capability(attributes, needs) if requested is Mode.NATIVE else ""
    needed = lacked or _REQUIRED_CAPABILITIES.get(requested)
    if needed and attributes.access_capability(needed) is Capability.NO:
        raise CapabilityError(
            path="mode",
            model=str(attributes.address),
            capability=needed,
            detail=f"{attributes.address} does not support the mode {requested}: {needed} is "
            f"no{_describe_source(attributes, needed)}.",
            remedy="Leave the mode at 'auto'.",
        )
    return ModeChoice(requested, "The mode was requested.")


def _describe_source(attributes: ModelAttributes, key: str) -> str:
    provenance = attributes.access_provenance(key)
    return "" if provenance is None else f" ({provenance})"
