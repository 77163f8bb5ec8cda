"""The metrics of the conventions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vibe_llms.messages.canisters import Usage
from vibe_llms.telemetry.opentelemetry import conventions as words

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram, Meter


class Meters:
    """Records durations and tokens."""

    def __init__(self, meter: Meter) -> None:
        def produce(name: str, description: str) -> Histogram:
            return meter.create_histogram(
                name,
                unit="s",
                description=description,
                explicit_bucket_boundaries_advisory=words.SECOND_BOUNDARIES,
            )

        self.chat = produce(words.OPERATION_DURATION, "GenAI operation duration.")
        self.first_chunk = produce(words.TIME_TO_FIRST_CHUNK, "Time to receive the first chunk.")
        self.run = produce(words.INVOKE_AGENT_DURATION, "The duration of an agent invocation.")
        self.tool = produce(words.EXECUTE_TOOL_DURATION, "The duration of a tool execution.")
        self._tokens = meter.create_histogram(
            words.TOKEN_USAGE,
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=words.TOKEN_BOUNDARIES,
        )

    def count_tokens(self, usage: Usage | None, attributes: Mapping[str, Any]) -> None:
        """Records what an answer used, as far as that is known."""
        if usage is None:
            return
        counts = {"input": usage.total_input_tokens, "output": usage.total_output_tokens}
        for kind, count in counts.items():
            if count is not None:
                self._tokens.record(count, {**attributes, words.TOKEN_TYPE: kind})
