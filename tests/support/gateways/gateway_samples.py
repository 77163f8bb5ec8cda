"""Valid and nearly valid requests to a gateway, from which invalid ones are made."""

from __future__ import annotations

from typing import Any, Final

MODEL: Final = "anthropic:answer-well"
CARRIED: Final = "openai_conversations:answer-well"
_TOOL: Final = {"type": "object", "properties": {"at": {"type": "integer"}}}
CHAT: Final[dict[str, Any]] = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "A sea?"}]},
    ],
    "tools": [{"type": "function", "function": {"name": "look", "parameters": _TOOL}}],
    "max_tokens": 9,
    "stream": False,
}
_CONVERSE: Final = {
    "version": 1,
    "request": {"model": MODEL, "canisters": [{"role": "user", "contents": []}]},
}
_GEMINI: Final = {
    "contents": [{"role": "user", "parts": [{"text": "A sea?"}]}],
    "generationConfig": {"maxOutputTokens": 9},
}
RESPONSE: Final = {
    "model": MODEL,
    "input": [{"role": "user", "content": [{"type": "input_text", "text": "A sea?"}]}],
    "max_output_tokens": 9,
}
ITEM: Final = {"type": "message", "role": "user", "content": "A sea?"}
BODIES: Final[tuple[tuple[str, Any], ...]] = (
    ("/v1/chat/completions", {"model": MODEL, **CHAT}),
    ("/v1/chat/completions", {"model": CARRIED, **CHAT}),
    ("/v1/responses", RESPONSE),
    ("/v1/messages", {"model": MODEL, "max_tokens": 9, "messages": CHAT["messages"][1:]}),
    ("/v1/messages/count_tokens", {"model": CARRIED, "messages": CHAT["messages"][1:]}),
    (f"/v1beta/models/{MODEL}:generateContent", _GEMINI),
    (f"/v1beta/models/{MODEL}:streamGenerateContent", _GEMINI),
    ("/api/chat", {"model": MODEL, "messages": [{"role": "user", "content": "A sea?"}]}),
    ("/api/show", {"model": MODEL}),
    ("/v1/converse", _CONVERSE),
    ("/v1/converse/count", _CONVERSE),
)
"""Path and body of valid and nearly valid requests."""
KEPT_BODIES: Final[tuple[tuple[str, Any], ...]] = (
    (
        "/v1/responses",
        {
            **RESPONSE,
            "previous_response_id": "{response}",
            "store": True,
            "metadata": {"a": "b"},
            "instructions": "Be brief.",
            "include": ["reasoning.encrypted_content"],
            "stream": True,
        },
    ),
    ("/v1/responses", {**RESPONSE, "conversation": {"id": "{conversation}"}, "stream": True}),
    ("/v1/responses", {**RESPONSE, "background": True, "stream": True}),
    ("/v1/responses", {**RESPONSE, "conversation": "{conversation}", "truncation": "auto"}),
    ("/v1/responses/input_tokens", {**RESPONSE, "previous_response_id": "{response}"}),
    ("/v1/responses/compact", {**RESPONSE, "previous_response_id": "{response}"}),
    ("/v1/conversations", {"items": [ITEM], "metadata": {"a": "b"}}),
    ("/v1/conversations/{conversation}", {"metadata": {"a": "b"}}),
    ("/v1/conversations/{conversation}/items", {"items": [ITEM, {**ITEM, "id": "msg_1"}]}),
    ("/v1/responses/{response}/cancel", {}),
    ("/v1/responses/{background}/cancel", {}),
)
"""Requests for stored objects; names in braces are replaced by their ids."""
RICH_BODIES: Final[tuple[tuple[str, Any], ...]] = (
    (
        "/v1/chat/completions",
        {
            "model": MODEL,
            **CHAT,
            "messages": [
                *CHAT["messages"],
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "look", "arguments": '{"at": 1}'},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "Water."},
                {
                    "role": "user",
                    "content": [
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
                    ],
                },
            ],
            "tool_choice": {"type": "function", "function": {"name": "look"}},
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "s", "schema": _TOOL, "strict": True},
            },
            "temperature": 0.5,
            "top_p": 0.5,
            "stop": ["x"],
            "seed": 1,
            "n": 1,
            "logprobs": True,
            "top_logprobs": 2,
            "logit_bias": {"1": 2},
            "reasoning_effort": "low",
            "parallel_tool_calls": False,
            "stream_options": {"include_usage": True},
            "stream": True,
            "user": "u",
            "metadata": {"a": "b"},
        },
    ),
    (
        "/v1/messages",
        {
            "model": CARRIED,
            "max_tokens": 9,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "x"}}],
            "messages": [
                {"role": "user", "content": "A sea?"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Hm.", "signature": "AA=="},
                        {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": 1}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "t1",
                            "content": [{"type": "text", "text": "Water."}],
                            "is_error": False,
                        },
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/png", "data": "AA=="},
                        },
                        {"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}},
                    ],
                },
            ],
            "tools": [{"name": "look", "description": "Looks.", "input_schema": _TOOL}],
            "tool_choice": {"type": "tool", "name": "look"},
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "temperature": 1,
            "stop_sequences": ["x"],
            "metadata": {"user_id": "u"},
            "stream": True,
        },
    ),
    (
        "/v1/responses",
        {
            "model": CARRIED,
            "instructions": "Be brief.",
            "input": [
                ITEM,
                {"type": "reasoning", "id": "rs",
                 "summary": [{"type": "summary_text", "text": "."}],
                 "encrypted_content": "AA=="},
                {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "Water."},
                {"role": "user", "content": [
                    {"type": "input_image", "image_url": "https://x/y.png", "detail": "low"},
                    {"type": "input_file", "filename": "a.pdf", "file_data": "data:,x"},
                ]},
                {"type": "item_reference", "id": "{response}"},
            ],
            "tools": [{"type": "function", "name": "look", "parameters": _TOOL, "strict": True}],
            "tool_choice": {"type": "function", "name": "look"},
            "text": {"format": {"type": "json_schema", "name": "s", "schema": _TOOL},
                     "verbosity": "low"},
            "reasoning": {"effort": "low", "summary": "auto"},
            "max_output_tokens": 9,
            "stream": True,
            "store": False,
        },
    ),
    (
        f"/v1beta/models/{CARRIED}:streamGenerateContent",
        {
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [
                {"role": "user", "parts": [
                    {"text": "A sea?"}, {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
                    {"fileData": {"mimeType": "image/png", "fileUri": "https://x/y"}}]},
                {"role": "model", "parts": [
                    {"functionCall": {"name": "look", "args": {"at": 1}},
                     "thoughtSignature": "AA"}]},
                {"role": "user", "parts": [
                    {"functionResponse": {"name": "look", "response": {"a": 1}}}]},
            ],
            "tools": [{"functionDeclarations": [{"name": "look", "parameters": _TOOL}]}],
            "toolConfig": {"functionCallingConfig": {"mode": "ANY",
                                                     "allowedFunctionNames": ["look"]}},
            "generationConfig": {
                "maxOutputTokens": 9, "temperature": 1, "topP": 1, "topK": 3, "seed": 1,
                "stopSequences": ["x"], "responseMimeType": "application/json",
                "responseSchema": _TOOL, "thinkingConfig": {"thinkingBudget": 9},
            },
        },
    ),
    (
        "/api/chat",
        {
            "model": CARRIED,
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "A sea?", "images": ["AA=="]},
                {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": [
                    {"function": {"name": "look", "arguments": {"at": 1}}}]},
                {"role": "tool", "tool_name": "look", "content": "Water."},
            ],
            "tools": [{"type": "function", "function": {"name": "look", "parameters": _TOOL}}],
            "format": _TOOL,
            "options": {"num_predict": 9, "temperature": 1, "stop": ["x"], "seed": 1},
            "think": True,
            "keep_alive": "5m",
            "stream": True,
        },
    ),
    (
        "/v1/converse",
        {
            "version": 1,
            "request": {
                "model": MODEL,
                "canisters": [
                    {"role": "user", "id": "u", "contents": [{"type": "text", "text": "A sea?"}]}
                ],
                "controls": {"temperature": 1},
                "invocables": [],
            },
            "stream": True,
        },
    ),
)  # fmt: skip
"""Requests with many features of a protocol."""
