"""Shared parts of vendors whose models do not converse, such as those of speech."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects import chat_completions
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.requests import Request
from vibe_llms.models.genera import Genus
from vibe_llms.providers.genera import refuse_genus
from vibe_llms.providers.interfaces import ModelDescriptor, Processors, Translation
from vibe_llms.providers.vendors import Vendor


class CallVendor(Vendor):
    """A vendor whose models answer calls only.

    Errors are classified like errors of Chat Completions, by the message and code that
    :meth:`find_message` returns.
    """

    dialect = chat_completions

    def compose_path(self, model: ModelDescriptor, *, streaming: bool) -> str:
        """Refuse the model: it does not converse. Raises UnknownNameError."""
        raise refuse_genus(self.context.name, Genus.CONVERSER)

    def compose_request(
        self, request: Request, model: ModelDescriptor, processors: Processors, *, streaming: bool
    ) -> Translation[JsonObject]:
        """Refuse the request: the model does not converse. Raises UnknownNameError."""
        raise refuse_genus(self.context.name, Genus.CONVERSER)

    def find_message(self, body: JsonObject) -> tuple[Any, Any]:
        """Return the message and the code of an error; either may be missing.

        By default ``message`` and ``code``. An error in OpenAI's form is read without this method.
        """
        return body.get("message"), body.get("code")

    def produce_error(
        self, body: JsonObject | str, model: str, *, status: int | None, headers: Mapping[str, str]
    ) -> ConverseError:
        """Return the error for an answer with an error status."""
        if isinstance(body, Mapping):
            message, code = self.find_message(body)
            if isinstance(message, str):
                body = {"error": {"message": message, "code": code}}
        return super().produce_error(body, model, status=status, headers=headers)
