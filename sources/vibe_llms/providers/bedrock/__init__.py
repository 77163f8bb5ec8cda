"""The provider ``bedrock``: models of many vendors, by Amazon Bedrock.

The dialect is Converse. The key is one for Bedrock (``AWS_BEARER_TOKEN_BEDROCK``); without one, the
package botocore finds credentials and signs the requests. Bedrock has been tried against a
simulator only.
"""

from __future__ import annotations

from vibe_llms.providers.offering import REMOTE, offer_attributes, offer_provider

survey_providers, produce_provider = offer_provider(
    "Models of many vendors, by Amazon Bedrock",
    REMOTE,
    "vibe_llms.providers.bedrock.client:BedrockVendor",
)
survey_model_attributes = offer_attributes("bedrock")
