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
    the answer. ``PROMPT``: the prompt asks for the form, in words.
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
    wanted: Mode | None = None,
    *,
    has_tools: bool = False,
    needs: Sequence[str] = (),
) -> ModeChoice:
    """Choose the strongest mode that the model is known to support.

    Args:
        wanted: A mode that was already decided on.
        has_tools: The model may make other calls before its answer.
        needs: The capabilities that enforcing the schema requires.

    Raises:
        CapabilityError: The model is known to lack the wanted mode.
    """
    if wanted is not None:
        return _confirm(attributes, wanted, needs)
    schema = attributes.access_capability("supports_schema")
    invocations = attributes.access_capability("supports_invocations")
    together = attributes.access_capability("supports_schema_with_invocations")
    is_apart = has_tools and together is Capability.NO
    unmet = _find_unmet(attributes, needs)
    if schema is Capability.YES and not is_apart and not unmet:
        reason = f"supports schemas{_tell_source(attributes, 'supports_schema')}"
        return ModeChoice(Mode.NATIVE, f"{attributes.address} {reason}.")
    doubt = {
        Capability.YES: f"{attributes.address} does not support schemas {_LACKS[unmet]}",
        Capability.NO: f"{attributes.address} does not support schemas",
        Capability.UNKNOWN: f"It is unknown if {attributes.address} supports schemas",
    }[schema]
    if invocations is Capability.YES:
        source = _tell_source(attributes, "supports_invocations")
        return ModeChoice(Mode.TOOL, f"{doubt}, but it can invoke tools{source}.")
    others = "not able" if invocations is Capability.NO else "not known to be able"
    return ModeChoice(Mode.PROMPT, f"{doubt}, and it is {others} to invoke tools.")


_LACKS = {
    "": "while it has tools",
    MAPS: "with maps, whose names are not known in advance",
    RECURSION: "that refer to themselves",
}


def _find_unmet(attributes: ModelAttributes, needs: Sequence[str]) -> str:
    """Return the first capability that the model is known to lack; empty for none."""
    no = Capability.NO
    return next((need for need in needs if attributes.access_capability(need) is no), "")


_NEEDED = {Mode.NATIVE: "supports_schema", Mode.TOOL: "supports_invocations"}


def _confirm(attributes: ModelAttributes, wanted: Mode, needs: Sequence[str]) -> ModeChoice:
    unmet = _find_unmet(attributes, needs) if wanted is Mode.NATIVE else ""
    needed = unmet or _NEEDED.get(wanted)
    if needed and attributes.access_capability(needed) is Capability.NO:
        raise CapabilityError(
            path="mode",
            model=str(attributes.address),
            capability=needed,
            detail=f"{attributes.address} does not support the mode {wanted}: {needed} is "
            f"no{_tell_source(attributes, needed)}.",
            remedy="Leave the mode at 'auto'.",
        )
    return ModeChoice(wanted, "The mode was requested.")


def _tell_source(attributes: ModelAttributes, key: str) -> str:
    provenance = attributes.access_provenance(key)
    return "" if provenance is None else f" ({provenance})"
