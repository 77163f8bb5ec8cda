"""Prompts: templates with variables, which are checked before rendering.

May import the messages and the validation of values against a schema. Does not know models and
conversations: a prompt is rendered to a text, contents or canisters, and other packages send those.
Jinja is imported only when the first prompt is created.
"""

from __future__ import annotations

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.instruments.prompts.prompt import Prompt

_MODULES = {"Prompt": "prompt"}
__all__ = ["Prompt"]
__getattr__, __dir__ = produce_attribute_access(__name__, _MODULES)
