"""Draw the example tasks, and a run of one, with Mermaid, for the documentation.

``python documentation/draw_flows.py`` writes ``guides/flows/<example>.svg``. It runs the packed
Mermaid in Chromium (Debian package ``chromium``) and downloads nothing. A comment in each picture
has the digest of its diagram, so that a test notices a changed example.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
import subprocess
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from vibe_llms.events.flow import FlowStartedEvent, NodeFinishedEvent, NodeStartedEvent
from vibe_llms.flows.courses import Course
from vibe_llms.flows.drawing import annotate
from vibe_llms.flows.examples import survey_examples
from vibe_llms.flows.task_reading import read_task
from vibe_llms.foundation.package_data import access_data
from vibe_llms.messages.canisters import Usage

PICTURES = Path(__file__).resolve().parent / "guides" / "flows"

_PAGE = """<!doctype html><meta charset="utf-8"><pre id="drawn"></pre>
<script>{mermaid}</script>
<script>
(async () => {{
  // Labels as HTML would be foreign objects, which an <img> may not show.
  mermaid.initialize({{ startOnLoad: false, theme: "neutral", htmlLabels: false,
    flowchart: {{ htmlLabels: false, useMaxWidth: false, wrappingWidth: 400 }} }});
  const {{ svg }} = await mermaid.render("flow", {diagram});
  const parsed = new DOMParser().parseFromString(svg, "text/html").querySelector("svg");
  const bytes = new TextEncoder().encode(new XMLSerializer().serializeToString(parsed));
  document.getElementById("drawn").textContent = btoa(String.fromCharCode(...bytes));
}})();
</script>
"""


def survey_diagrams() -> dict[str, str]:
    """Returns the diagram of each example, by its name, and that of a run of one."""
    diagrams = {each.name: read_task(each.path).flow_diagram.mermaid for each in survey_examples()}
    return {**diagrams, "run_of_research_task": annotate(diagrams["research_task"], tell_run())}


def tell_run() -> Course:
    """Tells a run that looks again once, and is asking for the summary."""
    course, moment = Course(), datetime(2026, 11, 23, 12, tzinfo=UTC)
    course.feed(FlowStartedEvent(run_id="run"), moment)
    for node, visit, edge, seconds, tokens in (
        ("START", 1, 0, 0, None),
        ("LOOP", 1, 1, 0, None),
        ("P0", 1, 2, 4.2, 610),
        ("COND", 1, 4, 0, None),
        ("LOOP", 2, 1, 0, None),
        ("P0", 2, 2, 5.1, 890),
        ("COND", 2, 3, 0, None),
        ("P1", 1, None, 0, None),
    ):
        course.feed(NodeStartedEvent(node=node, visit=visit), moment)
        if edge is not None:
            moment += timedelta(seconds=seconds)
            usage = None if tokens is None else Usage(output_tokens=tokens)
            cost = None if tokens is None else tokens / 1500
            event = NodeFinishedEvent(
                node=node, visit=visit, edges=(edge,), usage=usage, cost_cents=cost
            )
            course.feed(event, moment)
    return course


def mark(diagram: str) -> str:
    """Return the comment with the digest of a picture's diagram."""
    return f"<!-- drawn of {hashlib.sha256(diagram.encode()).hexdigest()} -->\n"


def draw(diagram: str) -> str:
    """Returns the picture of a diagram."""
    packed = access_data("flows", "mermaid.min.js.gz").read_bytes()
    text = json.dumps(diagram).replace("<", "\\u003c")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        page.write_text(
            _PAGE.format(mermaid=gzip.decompress(packed).decode(), diagram=text), encoding="utf-8"
        )
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/user"]
        command = ["chromium", *options, "--virtual-time-budget=20000", "--dump-dom", str(page)]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r'<pre id="drawn">([^<]+)</pre>', shown)
    if found is None:
        raise RuntimeError(f"Mermaid drew nothing: {html.unescape(shown[-500:])}")
    return mark(diagram) + base64.b64decode(found[1]).decode() + "\n"


def main() -> None:
    """Writes all pictures."""
    PICTURES.mkdir(exist_ok=True)
    for name, diagram in survey_diagrams().items():
        (PICTURES / f"{name}.svg").write_text(draw(diagram), encoding="utf-8")


if __name__ == "__main__":
    main()
