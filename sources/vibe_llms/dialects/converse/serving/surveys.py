"""Token counts and lists of models for another vibe-llms."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from vibe_llms.dialects.converse.versions import VERSION
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.messages.codec.converter import produce_converter
from vibe_llms.models.attributes import TracedValue
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.models.tokens import TokenCount


def nativize_count(count: TokenCount) -> JsonObject:
    """Return a token count, and its maximum error."""
    return {"version": VERSION, **msgspec.to_builtins(count)}


def nativize_models(models: Mapping[str, ModelDescriptor]) -> JsonObject:
    """Return models with all of their attributes, and the source of each.

    The names of our files are left out, as they mean nothing to the other side.

    Args:
        models: The models by their addresses in this configuration, which may be aliases.
    """
    return {
        "version": VERSION,
        "models": [
            {
                "address": address,
                "model": model.origin or str(model),
                "values": [_write(each) for each in model.attributes.traced_values],
            }
            for address, model in models.items()
        ],
    }


def _write(traced: TracedValue) -> JsonObject:
    provenance = traced.provenance
    is_removed = traced.value is ABSENT
    return {
        "key": traced.key,
        "control": traced.control,
        "value": None if is_removed else produce_converter().unstructure(traced.value),
        "removed": is_removed,
        "layer": str(provenance.layer),
        "name": provenance.name,
        "source": provenance.source,
        "date": provenance.date,
    }
