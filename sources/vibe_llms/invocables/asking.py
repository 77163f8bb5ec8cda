"""What a function asks of whoever has called it, while it is at work.

Questions and answers are plain data, in the words that MCP has for them: whoever passes them on
need not understand them, and loses nothing. One question is ``{"method": …, "params": …}``, and
its answer is the result of that method.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from vibe_llms.foundation.json_types import JsonObject, JsonValue

ELICITATION: Final = "elicitation/create"
SAMPLING: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"

Questions: TypeAlias = Mapping[str, JsonObject]
"""Questions, each under a name that its answer has, too."""

Answers: TypeAlias = Mapping[str, JsonObject]


class Host(Protocol):
    """A program that has called, and can be spoken to until it has its result."""

    @property
    def identity(self) -> Hashable:
        """Equal for two calls only where they come of one client."""

    @property
    def log_level(self) -> str:
        """From which level on the client reads a log; empty where it reads none."""

    def can_answer(self, question: JsonObject) -> bool:
        """Tells whether the client has said that it can be asked this."""

    async def ask(self, questions: Questions) -> Answers:
        """Asks the client, all at once.

        Raises:
            ConverseError: It cannot be asked, or did not answer.
        """

    def tell(self, text: str, done: float | None, total: float | None) -> None:
        """Says how far the call is; in the event loop, and without waiting."""

    def log(self, level: str, data: Any, logger: str | None) -> None:
        """Writes into the client's log; in the event loop, and without waiting."""


def compose_form(message: str, schema: JsonObject) -> JsonObject:
    """Makes a question for a person.

    Args:
        message: What they read.
        schema: A flat JSON Schema of the values that they are to give: an object of texts,
            numbers, booleans and choices. The answer has ``action`` (``accept``, ``decline`` or
            ``cancel``) and, where they have accepted, the values as ``content``.
    """
    params: JsonObject = {"mode": "form", "message": message, "requestedSchema": schema}
    return {"method": ELICITATION, "params": params}


def compose_sampling(messages: str | Sequence[JsonObject], max_tokens: int) -> JsonObject:
    """Makes a question for the client's model.

    Args:
        messages: What the user says, or messages as MCP has them. The answer is a message, too,
            with ``role``, ``content`` and ``model``.
        max_tokens: What the answer may have.
    """
    said: JsonValue = messages
    if isinstance(messages, str):
        said = [{"role": "user", "content": {"type": "text", "text": messages}}]
    return {"method": SAMPLING, "params": {"messages": said, "maxTokens": max_tokens}}


def compose_roots() -> JsonObject:
    """Asks which directories the client works with: the answer has ``roots``, with addresses."""
    return {"method": ROOTS, "params": {}}
