"""Models that play a script which a test writes down."""

from __future__ import annotations

from typing import Any

from vibe_llms.models.catalogue import Catalogue
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.scripted.client import ScriptedModel
from vibe_llms.providers.scripted.scripts import produce_script


def produce_model(*responses: dict[str, Any]) -> ScriptedModel:
    """Makes a model that gives these responses in turn; see the module of scripts."""
    attributes = Catalogue().access_integrator("scripted").integrate("test")
    descriptor = ModelDescriptor(provider="scripted", name="test", attributes=attributes)
    return ScriptedModel(descriptor, produce_script({"responses": list(responses)}))
