"""Questions of a function to its caller during a call.

Questions and answers are plain data in the format of MCP, so that intermediaries can pass them on
unchanged. A question is ``{"method": …, "params": …}``, and the answer is the result of that
method.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from vibe_llms.foundation.json_types import JsonObject, JsonValue

ELICITATION: Final = "elicitation/create"
SAMPLING: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"

Questions: TypeAlias = Mapping[str, JsonObject]
"""Questions by name; the answers use the names of the questions."""

Answers: TypeAlias = Mapping[str, JsonObject]
"""Answers by the names of their questions."""


class Host(Protocol):
    """The calling program, which can be asked until it has the result."""

    @property
    def identity(self) -> Hashable:
        """Equal for two calls only if both come from one client."""

    @property
    def log_level(self) -> str:
        """Minimum level of log messages that the client reads; empty if it reads none."""

    def can_answer(self, question: JsonObject) -> bool:
        """Return whether the client supports this question."""

    async def ask(self, questions: Questions) -> Answers:
        """Ask the client all questions together.

        Raises:
            ConverseError: The client cannot be asked, or did not answer.
        """

    def report_progress(self, text: str, done: float | None, total: float | None) -> None:
        """Report progress; in the event loop, without waiting."""

    def log(self, level: str, data: Any, logger: str | None) -> None:
        """Send a log message to the client; in the event loop, without waiting."""


def compose_form(message: str, schema: JsonObject) -> JsonObject:
    """Create a question for a person.

    Args:
        message: The text for the person.
        schema: A flat JSON Schema of the requested values: an object of texts, numbers, booleans
            and choices. The answer has ``action`` (``accept``, ``decline`` or ``cancel``) and, if
            accepted, the values as ``content``.
    """
    params: JsonObject = {"mode": "form", "message": message, "requestedSchema": schema}
    return {"method": ELICITATION, "params": params}


def compose_sampling(messages: str | Sequence[JsonObject], max_tokens: int) -> JsonObject:
    """Create a question for the client's model.

    Args:
        messages: The user's text, or messages in the format of MCP. The answer is a message, too,
            with ``role``, ``content`` and ``model``.
        max_tokens: Maximum length of the answer.
    """
    items: JsonValue = messages
    if isinstance(messages, str):
        items = [{"role": "user", "content": {"type": "text", "text": messages}}]
    return {"method": SAMPLING, "params": {"messages": items, "maxTokens": max_tokens}}


def compose_roots() -> JsonObject:
    """Ask for the client's working directories: the answer has ``roots``, with addresses."""
    return {"method": ROOTS, "params": {}}
