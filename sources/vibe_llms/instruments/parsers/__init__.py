"""Structured output: values of your own types out of what models answer.

A parser derives a JSON Schema from a type, brings a model to answer in that form by the way which
promises most with it, and makes a value of the answer, or says what is wrong with it. May import
what instruments may. Refuses to send anything: whoever asks hands the answers in.
"""

from __future__ import annotations

from vibe_llms.laziness import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.instruments.parsers.choosing import Choice, Mode
    from vibe_llms.instruments.parsers.dialogue import Attempt, Parsed
    from vibe_llms.instruments.parsers.parsers import Parser
    from vibe_llms.instruments.parsers.partials import Partial, survey_arrived
    from vibe_llms.instruments.parsers.reading import JsonReader, is_growing

__all__ = [
    "Attempt",
    "Choice",
    "JsonReader",
    "Mode",
    "Parsed",
    "Parser",
    "Partial",
    "is_growing",
    "survey_arrived",
]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "Attempt": "dialogue",
        "Choice": "choosing",
        "JsonReader": "reading",
        "Mode": "choosing",
        "Parsed": "dialogue",
        "Parser": "parsers",
        "Partial": "partials",
        "is_growing": "reading",
        "survey_arrived": "partials",
    },
)
