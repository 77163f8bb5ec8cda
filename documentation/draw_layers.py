"""Draws the layers from the contract that enforces them, as a picture.

``python documentation/draw_layers.py`` writes ``architecture/layers.svg``; a test notices when
the picture and the contract in ``pyproject.toml`` differ.
"""

from __future__ import annotations

import tomllib
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent
PICTURE = HERE / "architecture" / "layers.svg"

WORDS = {
    "testing": "for plugin authors: contract kit, simulator, recorder; nothing imports it",
    "interfaces": "the command line",
    "daemons": "gateway, agents and tools over HTTP",
    "agents": "background runs and their workers",
    "flows": "task files whose flowchart runs",
    "batches": "many inputs, many at once",
    "instruments": "Model, Engine, Prompt, Parser, Channel: the library's face",
    "application": "the one place that builds the object graph",
    "plugins": "find, load and check plugins",
    "plugins types": "the types of all hooks",
    "runs": "find, watch, replay and compact runs",
    "engine": "the loop of model calls and tool calls",
    "conversations": "histories, forks, stores, logs of runs, exports",
    "invocables": "tools: functions, ensembles, MCP, approvals",
    "providers": "one folder for each vendor",
    "dialects": "the vendors' protocols",
    "telemetry": "usage, prices, traces",
    "wire": "transports and framing",
    "models": "facts about models",
    "configuration": "settings and their sources",
    "events": "typed events",
    "messages": "canisters and contents",
    "logs": "append-only files",
    "mermaid": "flowcharts",
    "processes": "child processes",
    "tables": "typed settings",
    "exceptions": "all errors",
    "foundation": "files, limits, JSON types, secrets",
}
TYPE_MODULES = {"plugins.markers", "plugins.specification"}

WIDTH, ROW, GAP = 760, 44, 6


def read_layers() -> list[list[str]]:
    """Returns the contract's layers, highest first, with a package's own layers as one."""
    text = (HERE.parent / "pyproject.toml").read_text(encoding="utf-8")
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["id"] == "layers")
    rows: list[list[str]] = []
    for layer in layers:
        names = [
            "plugins types" if name in TYPE_MODULES else name.split(".")[0]
            for name in (part.strip() for part in layer.split("|"))
        ]
        rows.append(list(dict.fromkeys(names)))
    # A package on several layers is drawn once, on its lowest.
    lowest = {name: number for number, row in enumerate(rows) for name in row}
    drawn = [[name for name in row if lowest[name] == n] for n, row in enumerate(rows)]
    return [row for row in drawn if row and row != ["plugins types"]]


def draw(rows: list[list[str]]) -> str:
    """Returns the picture as SVG: a row a layer, the siblings of a layer side by side."""
    height = len(rows) * (ROW + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        f' width="{WIDTH}" height="{height}" role="img"'
        ' font-family="ui-sans-serif, system-ui, sans-serif">',
        "<title>The layers; imports point downwards only</title>",
    ]
    for number, row in enumerate(rows):
        width = (WIDTH - GAP * (len(row) + 1)) / len(row)
        y = GAP + number * (ROW + GAP)
        for column, name in enumerate(row):
            x = GAP + column * (width + GAP)
            parts += draw_box(name, x, y, width)
    return "\n".join([*parts, "</svg>", ""])


def draw_box(name: str, x: float, y: float, width: float) -> list[str]:
    """Return one box with a name and, if there is room, a few words about it."""
    title, words = name.removesuffix(" types"), WORDS.get(name, "")
    box = f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW}" rx="5"'
    lines = [f'{box} fill="#f4efe6" stroke="#8a7a5c"/>']
    middle = x + width / 2
    baseline = y + (19 if words else 27)
    lines.append(
        f'<text x="{middle:.1f}" y="{baseline}" text-anchor="middle" font-size="14"'
        f' font-weight="600" fill="#3a3124">{escape(title)}</text>'
    )
    if words:
        lines.append(
            f'<text x="{middle:.1f}" y="{y + 35}" text-anchor="middle" font-size="11"'
            f' fill="#6b5d45">{escape(words)}</text>'
        )
    return lines


if __name__ == "__main__":
    PICTURE.write_text(draw(read_layers()), encoding="utf-8")
    print(f"drew {PICTURE.relative_to(HERE.parent)}")
