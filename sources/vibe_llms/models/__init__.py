"""What is known about models: names, purposes, controls, capabilities, and where each fact is from.

So also how many tokens a text, a picture or a request is for a model. May import the messages,
the exceptions, the absence, the resources and plain values below it. It refuses to know any
vendor, any protocol and any transport: facts about models are data, in TOML files that ship with
the package, come with a plugin or are written by the user. Nothing is read until a provider is
asked for.
"""

from __future__ import annotations

from vibe_llms.laziness import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.models.addresses import ModelAddress
    from vibe_llms.models.attributes import (
        Capability,
        Explanation,
        Layer,
        ModelAttributes,
        Provenance,
        TracedValue,
    )
    from vibe_llms.models.catalogue import Catalogue
    from vibe_llms.models.controls import (
        BooleanControl,
        Control,
        DictionaryControl,
        IntervalControl,
        OptionsControl,
        SequenceControl,
        TextControl,
        check_control,
        check_controls,
        describe_control,
    )
    from vibe_llms.models.counting import estimate_contents, estimate_request
    from vibe_llms.models.folders import Overrides
    from vibe_llms.models.genera import Genus
    from vibe_llms.models.integrators import ModelsIntegrator
    from vibe_llms.models.keys import Key, KeyRole
    from vibe_llms.models.pictures import estimate_image
    from vibe_llms.models.tokens import TokenCount, count_encoded, count_text, estimate_text

_HOMES = {
    "BooleanControl": "controls",
    "Capability": "attributes",
    "Catalogue": "catalogue",
    "Control": "controls",
    "DictionaryControl": "controls",
    "Explanation": "attributes",
    "Genus": "genera",
    "IntervalControl": "controls",
    "Key": "keys",
    "KeyRole": "keys",
    "Layer": "attributes",
    "ModelAddress": "addresses",
    "ModelAttributes": "attributes",
    "ModelsIntegrator": "integrators",
    "OptionsControl": "controls",
    "Overrides": "folders",
    "Provenance": "attributes",
    "SequenceControl": "controls",
    "TextControl": "controls",
    "TokenCount": "tokens",
    "TracedValue": "attributes",
    "check_control": "controls",
    "check_controls": "controls",
    "count_encoded": "tokens",
    "count_text": "tokens",
    "describe_control": "controls",
    "estimate_contents": "counting",
    "estimate_image": "pictures",
    "estimate_request": "counting",
    "estimate_text": "tokens",
}

__all__ = [
    "BooleanControl",
    "Capability",
    "Catalogue",
    "Control",
    "DictionaryControl",
    "Explanation",
    "Genus",
    "IntervalControl",
    "Key",
    "KeyRole",
    "Layer",
    "ModelAddress",
    "ModelAttributes",
    "ModelsIntegrator",
    "OptionsControl",
    "Overrides",
    "Provenance",
    "SequenceControl",
    "TextControl",
    "TokenCount",
    "TracedValue",
    "check_control",
    "check_controls",
    "count_encoded",
    "count_text",
    "describe_control",
    "estimate_contents",
    "estimate_image",
    "estimate_request",
    "estimate_text",
]

__getattr__, __dir__ = produce_attribute_access(__name__, _HOMES)
