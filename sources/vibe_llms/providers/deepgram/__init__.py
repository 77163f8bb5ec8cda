"""The provider ``deepgram``: speech and transcription by Deepgram."""

from __future__ import annotations

from vibe_llms.providers.offering import REMOTE, offer_attributes, offer_provider

survey_providers, produce_provider = offer_provider(
    "speech and transcription, by Deepgram",
    REMOTE,
    "vibe_llms.providers.deepgram.client:DeepgramVendor",
)
survey_model_attributes = offer_attributes("deepgram")
