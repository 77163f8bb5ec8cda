"""The provider ``vllm``: models that a vLLM server runs, here or elsewhere.

It speaks Chat Completions, and takes more: what is a control goes by its name (``top_k``,
``min_p`` …), and all else of a request's native (``chat_template_kwargs``, ``structured_outputs``
…). With ``start = true`` the server is started as a child, and stopped with us.
"""

from __future__ import annotations

from vibe_llms.providers.offering import HOSTING, offer_provider

survey_providers, produce_provider = offer_provider(
    "asks a vLLM server, by default the one on this machine; needs no key",
    HOSTING,
    "vibe_llms.providers.vllm.client:VllmVendor",
    name="vllm",
)
