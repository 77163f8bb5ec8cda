"""The provider ``google``: Gemini models, by the Gemini API or by Vertex AI.

The dialect is generateContent. With ``project`` or ``cloud = "vertex"`` in its settings the models
are those of Vertex AI. Without an access token as the key, the package google-auth obtains tokens
from Application Default Credentials, and renews them. Missing settings are taken from
``GOOGLE_CLOUD_PROJECT`` and ``GOOGLE_CLOUD_LOCATION``, or the project from the credentials.
Vertex AI has been tried against a simulator only.

With ``protocol = "interactions"``, as in the provider ``google_interactions``, the dialect is that
of Gemini's Interactions.
"""

from __future__ import annotations

from vibe_llms.providers.offering import REMOTE, offer_attributes, offer_provider

survey_providers, produce_provider = offer_provider(
    "Gemini, by Google",
    REMOTE,
    "vibe_llms.providers.google.choosing:produce_vendor",
)
survey_model_attributes = offer_attributes("google")
