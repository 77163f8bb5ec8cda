"""The provider ``vllm``: models that a vLLM server runs, on this or another machine.

It uses Chat Completions with extensions: controls are sent under their names (``top_k``, ``min_p``
…), and so is the request's native data (``chat_template_kwargs``, ``structured_outputs`` …). With
``start = true`` the server is started as a child process, and stopped when this process ends.
"""

from __future__ import annotations

from vibe_llms.providers.offering import HOSTING, offer_provider

survey_providers, produce_provider = offer_provider(
    "uses a vLLM server, by default on this machine; needs no key",
    HOSTING,
    "vibe_llms.providers.vllm.client:VllmVendor",
    name="vllm",
)
