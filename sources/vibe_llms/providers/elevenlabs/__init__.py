"""The provider ``elevenlabs``: speech and transcription by ElevenLabs."""

from __future__ import annotations

from vibe_llms.providers.offering import REMOTE, offer_attributes, offer_provider

survey_providers, produce_provider = offer_provider(
    "speech and transcription, by ElevenLabs",
    REMOTE,
    "vibe_llms.providers.elevenlabs.client:ElevenLabsVendor",
)
survey_model_attributes = offer_attributes("elevenlabs")
