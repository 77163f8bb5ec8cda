"""Official client libraries that test the gateway's protocols."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

import anthropic
import attrs
import botocore.config
import botocore.session
import openai
from google import genai
from google.genai import types

from vibe_llms.testing.simulator.behaviour import produce_png

QUESTION = "Name a sea."
PICTURE = produce_png(8, 8)
SCHEMA = {
    "type": "object",
    "properties": {"sea": {"type": "string"}},
    "required": ["sea"],
    "additionalProperties": False,
}
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
DESCRIPTION = "Tells the time."


@attrs.frozen(kw_only=True)
class JudgedAnswer:
    """An answer as a client library reads it.

    Attributes:
        text: The whole text.
        calls: Name and arguments of each call.
        output_tokens: The reported usage.
        pieces: Number of pieces of a stream.
    """

    text: str
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    output_tokens: int | None = None
    pieces: int = 0


class Judge(Protocol):
    """Client of one library."""

    async def ask(
        self,
        model: str,
        *,
        stream: bool,
        tools: bool = False,
        picture: bool = False,
        schema: bool = False,
    ) -> JudgedAnswer: ...

    async def list_models(self) -> list[str]: ...


class ChatJudge:
    """The openai library, Chat Completions."""

    def __init__(self, client: openai.AsyncOpenAI) -> None:
        self._client = client

    async def ask(self, model: str, *, stream: bool, **wanted: bool) -> JudgedAnswer:
        content: Any = QUESTION
        if wanted.get("picture"):
            url = f"data:image/png;base64,{base64.b64encode(PICTURE).decode()}"
            content = [
                {"type": "text", "text": QUESTION},
                {"type": "image_url", "image_url": {"url": url}},
            ]
        fields: dict[str, Any] = {
            "model": model,
            "messages": [{"role": "user", "content": content}],
            "max_completion_tokens": 500,
        }
        if wanted.get("tools"):
            function = {"name": "clock", "description": DESCRIPTION, "parameters": PARAMETERS}
            fields["tools"] = [{"type": "function", "function": function}]
        if wanted.get("schema"):
            described = {"name": "answer", "schema": SCHEMA, "strict": True}
            fields["response_format"] = {"type": "json_schema", "json_schema": described}
        pieces = 0
        if stream:
            fields["stream_options"] = {"include_usage": True}
            async with self._client.chat.completions.stream(**fields) as events:
                async for event in events:
                    pieces += event.type == "content.delta"
                answer: Any = await events.get_final_completion()
        else:
            answer = await self._client.chat.completions.create(**fields)
        message = answer.choices[0].message
        calls = [(each.function.name, each.function.arguments) for each in message.tool_calls or ()]
        return JudgedAnswer(
            text=message.content or "",
            calls=tuple((name, json.loads(arguments)) for name, arguments in calls),
            output_tokens=answer.usage.completion_tokens if answer.usage else None,
            pieces=pieces,
        )

    async def list_models(self) -> list[str]:
        return [model.id async for model in self._client.models.list()]


class ResponsesJudge:
    """The openai library, Responses."""

    def __init__(self, client: openai.AsyncOpenAI) -> None:
        self._client = client

    async def ask(self, model: str, *, stream: bool, **wanted: bool) -> JudgedAnswer:
        content: list[Any] = [{"type": "input_text", "text": QUESTION}]
        if wanted.get("picture"):
            url = f"data:image/png;base64,{base64.b64encode(PICTURE).decode()}"
            content.append({"type": "input_image", "image_url": url, "detail": "auto"})
        fields: dict[str, Any] = {
            "model": model,
            "input": [{"role": "user", "content": content}],
            "max_output_tokens": 500,
            "store": False,
        }
        if wanted.get("tools"):
            tool = {"type": "function", "name": "clock", "description": DESCRIPTION}
            fields["tools"] = [{**tool, "parameters": PARAMETERS, "strict": True}]
        if wanted.get("schema"):
            described = {"type": "json_schema", "name": "answer", "schema": SCHEMA}
            fields["text"] = {"format": {**described, "strict": True}}
        pieces = 0
        if stream:
            async with self._client.responses.stream(**fields) as events:
                async for event in events:
                    pieces += event.type == "response.output_text.delta"
                answer: Any = await events.get_final_response()
        else:
            answer = await self._client.responses.create(**fields)
        calls = [item for item in answer.output if item.type == "function_call"]
        return JudgedAnswer(
            text=answer.output_text,
            calls=tuple((call.name, json.loads(call.arguments)) for call in calls),
            output_tokens=answer.usage.output_tokens if answer.usage else None,
            pieces=pieces,
        )

    async def list_models(self) -> list[str]:
        return [model.id async for model in self._client.models.list()]


class MessagesJudge:
    """The anthropic library."""

    def __init__(self, client: anthropic.AsyncAnthropic) -> None:
        self._client = client

    async def ask(self, model: str, *, stream: bool, **wanted: bool) -> JudgedAnswer:
        content: list[Any] = [{"type": "text", "text": QUESTION}]
        if wanted.get("picture"):
            data = base64.b64encode(PICTURE).decode()
            source = {"type": "base64", "media_type": "image/png", "data": data}
            content.insert(0, {"type": "image", "source": source})
        fields: dict[str, Any] = {
            "model": model,
            "messages": [{"role": "user", "content": content}],
            "max_tokens": 500,
        }
        if wanted.get("tools"):
            tool = {"name": "clock", "description": DESCRIPTION, "input_schema": PARAMETERS}
            fields["tools"] = [tool]
        if wanted.get("schema"):
            fields["output_config"] = {"format": {"type": "json_schema", "schema": SCHEMA}}
        pieces = 0
        if stream:
            async with self._client.messages.stream(**fields) as events:
                async for event in events:
                    pieces += event.type == "text"
                answer: Any = await events.get_final_message()
        else:
            answer = await self._client.messages.create(**fields)
        calls = [block for block in answer.content if block.type == "tool_use"]
        return JudgedAnswer(
            text="".join(block.text for block in answer.content if block.type == "text"),
            calls=tuple((call.name, dict(call.input)) for call in calls),
            output_tokens=answer.usage.output_tokens,
            pieces=pieces,
        )

    async def list_models(self) -> list[str]:
        return [model.id async for model in self._client.models.list()]


class GeminiJudge:
    """The google-genai library."""

    def __init__(self, client: genai.Client) -> None:
        self._client = client

    async def ask(self, model: str, *, stream: bool, **wanted: bool) -> JudgedAnswer:
        contents: list[Any] = [QUESTION]
        if wanted.get("picture"):
            contents.append(types.Part.from_bytes(data=PICTURE, mime_type="image/png"))
        config = types.GenerateContentConfig(max_output_tokens=500)
        config.automatic_function_calling = types.AutomaticFunctionCallingConfig(disable=True)
        if wanted.get("tools"):
            function = types.FunctionDeclaration(
                name="clock", description=DESCRIPTION, parameters_json_schema=PARAMETERS
            )
            config.tools = [types.Tool(function_declarations=[function])]
        if wanted.get("schema"):
            config.response_mime_type = "application/json"
            config.response_json_schema = SCHEMA
        models = self._client.aio.models
        if stream:
            given = await models.generate_content_stream(
                model=model, contents=contents, config=config
            )
            answers = [answer async for answer in given]
        else:
            given = await models.generate_content(model=model, contents=contents, config=config)
            answers = [given]
        parts = [
            part
            for answer in answers
            for candidate in answer.candidates or ()
            for part in (candidate.content.parts if candidate.content else None) or ()
        ]
        calls = [part.function_call for part in parts if part.function_call]
        usage = answers[-1].usage_metadata
        return JudgedAnswer(
            text="".join(part.text or "" for part in parts if not part.thought),
            calls=tuple((call.name or "", dict(call.args or {})) for call in calls),
            output_tokens=usage.candidates_token_count if usage else None,
            pieces=len(answers) if stream else 0,
        )

    async def list_models(self) -> list[str]:
        return [
            (model.name or "").removeprefix("models/")
            async for model in await self._client.aio.models.list(config={"query_base": True})
        ]


class InteractionsJudge(GeminiJudge):
    """The interactions of the google-genai library."""

    async def ask(self, model: str, *, stream: bool, **wanted: bool) -> JudgedAnswer:
        content: list[Any] = [{"type": "text", "text": QUESTION}]
        if wanted.get("picture"):
            data = base64.b64encode(PICTURE).decode()
            content.append({"type": "image", "mime_type": "image/png", "data": data})
        body: dict[str, Any] = {
            "model": model,
            "input": [{"type": "user_input", "content": content}],
            "generation_config": {"max_output_tokens": 500},
        }
        if wanted.get("tools"):
            function = {"name": "clock", "description": DESCRIPTION, "parameters": PARAMETERS}
            body["tools"] = [{"type": "function", **function}]
        if wanted.get("schema"):
            text_format = {"type": "text", "mime_type": "application/json", "schema": SCHEMA}
            body["response_format"] = text_format
        interactions = self._client.aio.interactions
        if not stream:
            whole = await interactions.create(**body)
            steps = whole.steps or []
            texts = [
                content.text
                for step in steps
                if step.type == "model_output"
                for content in step.content or ()
                if content.type == "text"
            ]
            calls = [(step.name, step.arguments) for step in steps if step.type == "function_call"]
            return _judge_interaction(texts, calls, whole.usage, 0)
        texts, begun, pieces, usage = [], {}, {}, None
        async for event in await interactions.create(**body, stream=True):
            if event.event_type == "step.start" and event.step.type == "function_call":
                begun[event.index] = event.step.name
            elif event.event_type == "step.delta" and event.delta.type == "text":
                texts.append(event.delta.text)
            elif event.event_type == "step.delta" and event.delta.type == "arguments_delta":
                known = pieces.get(event.index, "")
                pieces[event.index] = known + (event.delta.arguments or "")
            elif event.event_type == "interaction.completed":
                usage = event.interaction.usage
        calls = [(name, json.loads(pieces[index])) for index, name in begun.items()]
        return _judge_interaction(texts, calls, usage, len(texts))


def _judge_interaction(
    texts: list[str], calls: list[tuple[str, dict[str, Any]]], usage: Any, pieces: int
) -> JudgedAnswer:
    return JudgedAnswer(
        text="".join(texts),
        calls=tuple((name, dict(arguments)) for name, arguments in calls),
        output_tokens=usage.total_output_tokens if usage else None,
        pieces=pieces,
    )


class BedrockJudge:
    """The botocore library, Converse of Amazon Bedrock."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def ask(self, model: str, *, stream: bool, **wanted: bool) -> JudgedAnswer:
        content: list[Any] = [{"text": QUESTION}]
        if wanted.get("picture"):
            content.append({"image": {"format": "png", "source": {"bytes": PICTURE}}})
        fields: dict[str, Any] = {
            "modelId": model,
            "messages": [{"role": "user", "content": content}],
            "inferenceConfig": {"maxTokens": 500},
        }
        if wanted.get("tools"):
            schema = {"json": PARAMETERS}
            function = {"name": "clock", "description": DESCRIPTION, "inputSchema": schema}
            fields["toolConfig"] = {"tools": [{"toolSpec": function}]}
        if wanted.get("schema"):
            structure = {"jsonSchema": {"name": "answer", "schema": json.dumps(SCHEMA)}}
            text_format = {"type": "json_schema", "structure": structure}
            fields["outputConfig"] = {"textFormat": text_format}
        return await asyncio.to_thread(self._stream if stream else self._converse, fields)

    def _converse(self, fields: dict[str, Any]) -> JudgedAnswer:
        answer = self._client.converse(**fields)
        blocks = answer["output"]["message"]["content"]
        calls = [block["toolUse"] for block in blocks if "toolUse" in block]
        return JudgedAnswer(
            text="".join(block.get("text", "") for block in blocks),
            calls=tuple((call["name"], call["input"]) for call in calls),
            output_tokens=answer["usage"]["outputTokens"],
        )

    def _stream(self, fields: dict[str, Any]) -> JudgedAnswer:
        pieces: list[str] = []
        names: dict[int, str] = {}
        arguments: dict[int, str] = {}
        output_tokens = None
        for event in self._client.converse_stream(**fields)["stream"]:
            match event:
                case {
                    "contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": call}}
                }:
                    names[index], arguments[index] = call["name"], ""
                case {"contentBlockDelta": {"delta": {"text": text}}}:
                    pieces.append(text)
                case {
                    "contentBlockDelta": {"contentBlockIndex": index, "delta": {"toolUse": call}}
                }:
                    arguments[index] += call["input"]
                case {"metadata": {"usage": usage}}:
                    output_tokens = usage["outputTokens"]
        return JudgedAnswer(
            text="".join(pieces),
            calls=tuple((name, json.loads(arguments[index])) for index, name in names.items()),
            output_tokens=output_tokens,
            pieces=len(pieces),
        )

    async def list_models(self) -> list[str]:
        raise NotImplementedError("another service has the list")


def produce_bedrock_client(address: str, **options: Any) -> Any:
    """Create a client of botocore, which signs its requests with made-up keys.

    It keeps no connection open: urllib3 closes idle ones only when it is collected, which after an
    error is at any later time.
    """
    client = botocore.session.Session().create_client(
        "bedrock-runtime",
        region_name="eu-central-1",
        endpoint_url=address,
        aws_access_key_id="AKIACLIENT",
        aws_secret_access_key="secret-of-the-client",
        config=botocore.config.Config(retries={"total_max_attempts": 1}, **options),
    )
    client.meta.events.register("before-send", _close_after_answer)
    return client


def _close_after_answer(request: Any, **_: Any) -> None:
    request.headers["Connection"] = "close"


@asynccontextmanager
async def open_judge(kind: str, address: str, key: str = "sk-client") -> AsyncIterator[Judge]:
    """Open a client, such as ``chat``, ``messages``, ``interactions`` or ``bedrock``."""
    if kind in ("chat", "responses"):
        async with openai.AsyncOpenAI(
            base_url=f"{address}/v1", api_key=key, max_retries=0
        ) as client:
            yield ChatJudge(client) if kind == "chat" else ResponsesJudge(client)
    elif kind == "bedrock":
        bedrock = produce_bedrock_client(address)
        try:
            yield BedrockJudge(bedrock)
        finally:
            bedrock.close()
    elif kind == "messages":
        async with anthropic.AsyncAnthropic(base_url=address, api_key=key, max_retries=0) as other:
            yield MessagesJudge(other)
    else:
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # to read all authorities takes long
        arguments = {"verify": trust, "ssl": trust}
        options = types.HttpOptions(
            base_url=address, client_args=arguments, async_client_args=arguments
        )
        gemini = genai.Client(api_key=key, http_options=options)
        try:
            yield GeminiJudge(gemini) if kind == "gemini" else InteractionsJudge(gemini)
        finally:
            await gemini.aio.aclose()
