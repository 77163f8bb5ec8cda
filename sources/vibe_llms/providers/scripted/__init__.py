"""The provider ``scripted``: answers from a script, for tests, demonstrations and documentation.

A script is a TOML file (see :mod:`vibe_llms.providers.scripted.scripts`). The name of a model is
a script that ships (``scripted:echo``) or the path of one (``scripted:./mine.toml``).
"""

from __future__ import annotations

from vibe_llms.providers.offering import offer_provider

survey_providers, produce_provider = offer_provider(
    "answers from a script",
    "vibe_llms.providers.scripted.client:ScriptedProvider",
    name="scripted",
)
