"""Answers as the vendors give them: each of everything that its protocol has, and made up.

``WORK`` ends with invocations, ``CLOSING`` leaves nothing open.
"""

from __future__ import annotations

import base64
from typing import Any, Final

PICTURE: Final = b"\x89PNG\r\n\x1a\n a picture"
_PICTURE64: Final = base64.b64encode(PICTURE).decode("ascii")
_SEAL: Final = "RXF1YWwgdG8gbm90aGluZyBlbHNl"
_USAGE: Final = {"input_tokens": 20, "output_tokens": 10}
_CHAT_USAGE: Final = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}
_PAGE: Final = "https://example.org/oslo"


def _message(content: list[Any], reason: str) -> dict[str, Any]:
    return {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5",
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": _USAGE,
    }


_ANTHROPIC_WORK = _message(
    [
        {"type": "thinking", "thinking": "Two places are asked for.", "signature": _SEAL},
        {"type": "redacted_thinking", "data": "RW1wdHk="},
        {"type": "text", "text": "I look at both.", "citations": None},
        {
            "type": "tool_use",
            "id": "toolu_01A",
            "name": "weather",
            "input": {"place": "Oslo"},
            "caller": {"type": "direct"},
        },
        {"type": "tool_use", "id": "toolu_01B", "name": "weather", "input": {"place": "Bergen"}},
    ],
    "tool_use",
)
_ANTHROPIC_CLOSING = _message(
    [
        {
            "type": "server_tool_use",
            "id": "srvtoolu_01",
            "name": "web_search",
            "input": {"query": "Oslo"},
        },
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_01",
            "content": [
                {
                    "type": "web_search_result",
                    "title": "Oslo",
                    "url": _PAGE,
                    "encrypted_content": "RW5j",
                    "page_age": "a day",
                }
            ],
        },
        {
            "type": "text",
            "text": "It rains.",
            "citations": [
                {
                    "type": "web_search_result_location",
                    "url": _PAGE,
                    "title": "Oslo",
                    "encrypted_index": "RW8=",
                    "cited_text": "Rain in Oslo",
                }
            ],
        },
        {"type": "compaction", "content": "They talk of rain.", "encrypted_content": "Q29t"},
    ],
    "end_turn",
)


def _response(output: list[Any]) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "gpt-5.5",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            **_USAGE,
            "total_tokens": 30,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 5},
        },
    }


_RESPONSES_WORK = _response(
    [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [
                {"type": "summary_text", "text": "Two places."},
                {"type": "summary_text", "text": "Both at once."},
            ],
            "encrypted_content": _SEAL,
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "phase": "commentary",
            "content": [
                {"type": "output_text", "text": "I look.", "annotations": [], "logprobs": []}
            ],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "weather",
            "arguments": '{"place": "Oslo"}',
            "status": "completed",
        },
        {
            "type": "custom_tool_call",
            "id": "ctc_1",
            "call_id": "call_2",
            "name": "query",
            "input": "select * from rain",
            "status": "completed",
        },
    ]
)
_RESPONSES_CLOSING = _response(
    [
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"type": "search", "query": "Oslo"},
        },
        {
            "type": "message",
            "id": "msg_2",
            "role": "assistant",
            "status": "completed",
            "phase": "final_answer",
            "content": [
                {
                    "type": "output_text",
                    "text": "It rains.",
                    "annotations": [
                        {
                            "type": "url_citation",
                            "start_index": 0,
                            "end_index": 2,
                            "title": "Oslo",
                            "url": _PAGE,
                        },
                        {"type": "file_citation", "file_id": "f_1", "filename": "a", "index": 3},
                    ],
                    "logprobs": [],
                },
                {"type": "refusal", "refusal": "I say no more."},
            ],
        },
        {
            "type": "image_generation_call",
            "id": "ig_1",
            "status": "completed",
            "result": _PICTURE64,
            "output_format": "png",
        },
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "Q29t"},
    ]
)


def _completion(message: dict[str, Any], reason: str, **more: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-5.5",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", **message},
                "finish_reason": reason,
                "logprobs": None,
            }
        ],
        "usage": _CHAT_USAGE,
        **more,
    }


def _call(identity: str, place: str) -> dict[str, Any]:
    function = {"name": "weather", "arguments": f'{{"place": "{place}"}}'}
    return {"id": identity, "type": "function", "function": function}


_OPENAI_WORK = _completion(
    {
        "content": "I look.",
        "refusal": None,
        "annotations": [],
        "tool_calls": [
            _call("call_a", "Oslo"),
            {
                "id": "call_b",
                "type": "custom",
                "custom": {"name": "query", "input": "select * from rain"},
            },
        ],
    },
    "tool_calls",
)
_OPENAI_CLOSING = _completion(
    {
        "content": "It rains.",
        "refusal": "I say no more.",
        "annotations": [
            {
                "type": "url_citation",
                "url_citation": {
                    "start_index": 0,
                    "end_index": 2,
                    "title": "Oslo",
                    "url": _PAGE,
                },
            }
        ],
        "audio": {
            "id": "audio_1",
            "data": base64.b64encode(b"sound").decode("ascii"),
            "transcript": "It rains.",
            "expires_at": 1,
        },
    },
    "stop",
)
_DEEPSEEK_WORK = _completion(
    {
        "content": "I look.",
        "reasoning_content": "Two places are asked for.",
        "tool_calls": [_call("call_00_x", "Oslo"), _call("call_01_y", "Bergen")],
    },
    "tool_calls",
)
_DEEPSEEK_CLOSING = _completion(
    {"content": "It rains.", "reasoning_content": "That was it."}, "stop"
)
_OPENROUTER_WORK = _completion(
    {
        "content": "I look.",
        "refusal": None,
        "reasoning": "Two places are asked for.",
        "reasoning_details": [
            {
                "type": "reasoning.text",
                "text": "Two places are asked for.",
                "signature": _SEAL,
                "format": "anthropic-claude-v1",
                "index": 0,
            },
            {"type": "reasoning.encrypted", "data": "RW1w", "id": "rs_9", "index": 1},
        ],
        "tool_calls": [{**_call("toolu_9", "Oslo"), "index": 0}],
    },
    "tool_calls",
)
_OPENROUTER_CLOSING = _completion(
    {
        "content": "It rains.",
        "refusal": None,
        "reasoning": None,
        "annotations": [
            {
                "type": "url_citation",
                "url_citation": {
                    "url": _PAGE,
                    "title": "Oslo",
                    "content": "Rain in Oslo",
                    "start_index": 0,
                    "end_index": 2,
                },
            }
        ],
        "images": [
            {
                "type": "image_url",
                "image_url": {"url": f"data:image/png;base64,{_PICTURE64}"},
                "index": 0,
            }
        ],
    },
    "stop",
)


def _candidate(parts: list[Any], **more: Any) -> dict[str, Any]:
    candidate = {
        "content": {"role": "model", "parts": parts},
        "finishReason": "STOP",
        "index": 0,
        **more,
    }
    return {
        "candidates": [candidate],
        "usageMetadata": {"promptTokenCount": 20, "candidatesTokenCount": 10},
        "modelVersion": "gemini-3-pro",
        "responseId": "r-1",
    }


_GOOGLE_WORK = _candidate(
    [
        {"text": "Two places are asked for.", "thought": True},
        {"text": "I look.", "thoughtSignature": "VGV4dA=="},
        {
            "functionCall": {"name": "weather", "args": {"place": "Oslo"}, "id": "fc-1"},
            "thoughtSignature": _SEAL,
        },
        {"functionCall": {"name": "weather", "args": {"place": "Bergen"}}},
    ]
)
_GOOGLE_CLOSING = _candidate(
    [
        {"executableCode": {"language": "PYTHON", "code": "print('rain')"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "rain"}},
        {"text": "It rains."},
        {"inlineData": {"mimeType": "image/png", "data": _PICTURE64}, "thoughtSignature": "UGlj"},
        {"novelty": {"of": "tomorrow"}},
    ],
    groundingMetadata={
        "groundingChunks": [{"web": {"uri": _PAGE, "title": "Oslo"}}],
        "groundingSupports": [
            {
                "segment": {"startIndex": 0, "endIndex": 2, "text": "It"},
                "groundingChunkIndices": [0],
            }
        ],
    },
)


def _chat(message: dict[str, Any]) -> dict[str, Any]:
    return {
        "model": "qwen3",
        "created_at": "2026-11-21T12:00:00Z",
        "message": {"role": "assistant", **message},
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": 20,
        "eval_count": 10,
    }


_OLLAMA_WORK = _chat(
    {
        "content": "I look.",
        "thinking": "Two places are asked for.",
        "tool_calls": [
            {
                "id": "call_0",
                "function": {"index": 0, "name": "weather", "arguments": {"place": "Oslo"}},
            },
            {"function": {"index": 1, "name": "weather", "arguments": {"place": "Bergen"}}},
        ],
    }
)
_OLLAMA_CLOSING = _chat({"content": "It rains.", "images": [_PICTURE64], "mood": "calm"})


def _interaction(steps: list[Any], status: str) -> dict[str, Any]:
    return {
        "id": "v1_01",
        "object": "interaction",
        "model": "gemini-3-pro",
        "status": status,
        "steps": steps,
        "usage": {"total_input_tokens": 20, "total_output_tokens": 10, "total_tokens": 30},
    }


_INTERACTIONS_WORK = _interaction(
    [
        {
            "type": "thought",
            "summary": [{"type": "text", "text": "Two places are asked for."}],
            "signature": _SEAL,
        },
        {"type": "model_output", "content": [{"type": "text", "text": "I look at both."}]},
        {
            "type": "function_call",
            "id": "call_A",
            "name": "weather",
            "arguments": {"place": "Oslo"},
            "novelty": "kept",
        },
        {
            "type": "function_call",
            "id": "call_B",
            "name": "weather",
            "arguments": {"place": "Bergen"},
        },
    ],
    "requires_action",
)
_INTERACTIONS_CLOSING = _interaction(
    [
        {
            "type": "google_search_call",
            "id": "search_1",
            "arguments": {"queries": ["Oslo"]},
            "signature": _SEAL,
        },
        {
            "type": "google_search_result",
            "call_id": "search_1",
            "result": [{"url": _PAGE, "title": "Oslo"}],
        },
        {
            "type": "model_output",
            "content": [
                {
                    "type": "text",
                    "text": "It rains.",
                    "annotations": [
                        {
                            "type": "url_citation",
                            "start_index": 0,
                            "end_index": 2,
                            "title": "Oslo",
                            "url": _PAGE,
                        },
                        {"type": "place_citation", "place_id": "1", "name": "Oslo"},
                    ],
                },
                {"type": "image", "mime_type": "image/png", "data": _PICTURE64},
                {"type": "novelty", "of": "tomorrow"},
            ],
        },
        {"type": "forecast", "days": 3},
    ],
    "completed",
)


def _bedrock(content: list[Any], reason: str) -> dict[str, Any]:
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": reason,
        "usage": {"inputTokens": 20, "outputTokens": 10, "totalTokens": 30},
        "metrics": {"latencyMs": 7},
    }


_BEDROCK_WORK = _bedrock(
    [
        {
            "reasoningContent": {
                "reasoningText": {"text": "Two places are asked for.", "signature": _SEAL}
            }
        },
        {"reasoningContent": {"redactedContent": "RW1wdHk="}},
        {"text": "I look at both."},
        {"toolUse": {"toolUseId": "tooluse_A", "name": "weather", "input": {"place": "Oslo"}}},
        {"toolUse": {"toolUseId": "tooluse_B", "name": "weather", "input": {"place": "Bergen"}}},
    ],
    "tool_use",
)
_BEDROCK_CLOSING = _bedrock(
    [
        {
            "toolUse": {
                "toolUseId": "tooluse_S",
                "name": "nova_grounding",
                "input": {"query": "Oslo"},
                "type": "server_tool_use",
            }
        },
        {
            "toolResult": {
                "toolUseId": "tooluse_S",
                "type": "nova_grounding_result",
                "content": [{"text": "Rain in Oslo"}],
                "status": "success",
            }
        },
        {
            "citationsContent": {
                "content": [{"text": "It rains."}],
                "citations": [
                    {
                        "title": "Oslo",
                        "sourceContent": [{"text": "Rain in Oslo"}],
                        "location": {"web": {"url": _PAGE, "domain": "example.org"}},
                    }
                ],
            }
        },
        {"novelty": {"of": "tomorrow"}},
    ],
    "end_turn",
)

WORK: Final[dict[str, dict[str, Any]]] = {
    "anthropic": _ANTHROPIC_WORK,
    "openai_responses": _RESPONSES_WORK,
    "openai": _OPENAI_WORK,
    "deepseek": _DEEPSEEK_WORK,
    "openrouter": _OPENROUTER_WORK,
    "google": _GOOGLE_WORK,
    "google_interactions": _INTERACTIONS_WORK,
    "bedrock": _BEDROCK_WORK,
    "ollama": _OLLAMA_WORK,
}
CLOSING: Final[dict[str, dict[str, Any]]] = {
    "anthropic": _ANTHROPIC_CLOSING,
    "openai_responses": _RESPONSES_CLOSING,
    "openai": _OPENAI_CLOSING,
    "deepseek": _DEEPSEEK_CLOSING,
    "openrouter": _OPENROUTER_CLOSING,
    "google": _GOOGLE_CLOSING,
    "google_interactions": _INTERACTIONS_CLOSING,
    "bedrock": _BEDROCK_CLOSING,
    "ollama": _OLLAMA_CLOSING,
}
