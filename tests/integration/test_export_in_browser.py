"""That a real browser shows an exported page and runs nothing in it."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from vibe_llms.conversations import Conversation, MemoryStore
from vibe_llms.conversations.exchange import export_html
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.messages.canisters import AssistantCanister, UserCanister
from vibe_llms.messages.contents import FileContent, ImageContent, TextualContent

pytestmark = pytest.mark.browser

RED, GREEN, BLUE = (255, 0, 0), (0, 128, 0), (0, 0, 255)

SVG = b"""<svg xmlns="http://www.w3.org/2000/svg" width="200" height="100"
 onload="document.documentElement.remove()">
<rect id="r" width="200" height="100" fill="rgb(0,128,0)"/>
<script>document.getElementById("r").setAttribute("fill", "rgb(255,0,0)");
parent.document.title = "CHANGED"</script></svg>"""

ATTACK = """<script>document.title = "CHANGED"</script></style></title>
<img src=x onerror='document.title = "CHANGED"'>
<svg onload='document.title = "CHANGED"'></svg>
[link](javascript:document.title="CHANGED")
<iframe srcdoc="<script>parent.document.title = 'CHANGED'</script>"></iframe>
<meta http-equiv="refresh" content="0;url=data:text/html,CHANGED">
<style>body { display: none }</style>
"""


@pytest.fixture
def chromium() -> str:
    path = shutil.which("chromium")
    assert path is not None, "The Debian package chromium has to be installed."
    return path


def browse(chromium: str, folder: Path, *arguments: str) -> str:
    """Runs the browser without a window; returns what it prints."""
    done = subprocess.run(
        [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
            f"--user-data-dir={folder / 'profile'}",
            *arguments,
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout


def produce_png(width: int, height: int, colour: tuple[int, int, int]) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    rows = (b"\0" + bytes(colour) * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def count_pixels(png: bytes, colour: tuple[int, int, int]) -> int:
    """Counts the pixels of a colour in a screenshot: 8 bits a channel, not interlaced."""
    at, data = 8, b""
    width = height = channels = 0
    while at < len(png):
        (size,) = struct.unpack_from(">I", png, at)
        kind, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, height, _, form = struct.unpack_from(">IIBB", body)
            channels = {2: 3, 6: 4}[form]
        data += body if kind == b"IDAT" else b""
        at += size + 12
    raw, stride, count = zlib.decompress(data), width * channels, 0
    above = bytearray(stride)
    for row in range(height):
        start = row * (stride + 1)
        line = _unfilter(
            raw[start], bytearray(raw[start + 1 : start + 1 + stride]), above, channels
        )
        count += sum(line[x : x + 3] == bytes(colour) for x in range(0, stride, channels))
        above = line
    return count


def _unfilter(kind: int, line: bytearray, above: bytearray, step: int) -> bytearray:
    for x in range(len(line)):
        left = line[x - step] if x >= step else 0
        corner = above[x - step] if x >= step else 0
        match kind:
            case 1:
                line[x] = (line[x] + left) & 255
            case 2:
                line[x] = (line[x] + above[x]) & 255
            case 3:
                line[x] = (line[x] + (left + above[x]) // 2) & 255
            case 4:
                guess = left + above[x] - corner
                distances = (abs(guess - left), abs(guess - above[x]), abs(guess - corner))
                nearest = (left, above[x], corner)[distances.index(min(distances))]
                line[x] = (line[x] + nearest) & 255
    return line


@pytest.fixture
def page(tmp_path: Path) -> Path:
    conversation = Conversation(
        metadata=ConversationMetadata(name="Kept " + ATTACK),
        canisters=[
            UserCanister(
                (
                    TextualContent(ATTACK),
                    ImageContent(mime_type="image/png", data=produce_png(200, 100, BLUE)),
                    ImageContent(mime_type="image/svg+xml", data=SVG, name=ATTACK),
                    FileContent(mime_type="text/html", data=ATTACK.encode(), name="evil.html"),
                )
            ),
            AssistantCanister(ATTACK + "\n\n**rendered**"),
        ],
    )
    path = tmp_path / "page.html"
    path.write_text(export_html(conversation, MemoryStore().contents), encoding="utf-8")
    return path


def test_nothing_runs_in_an_exported_page(chromium: str, tmp_path: Path, page: Path) -> None:
    """After loading, the page is what was written: no script has changed it."""
    dom = browse(chromium, tmp_path, "--virtual-time-budget=2000", "--dump-dom", page.as_uri())

    title = re.search(r"<title>(.*?)</title>", dom, re.DOTALL)
    assert title is not None
    assert title[1].startswith("Kept &lt;script&gt;")
    assert dom.count("<article") == 2
    assert "<strong>rendered</strong>" in dom
    assert not re.search(r"<(script|iframe|svg|object|embed)", dom)


def test_pictures_are_shown_and_those_with_scripts_are_inert(
    chromium: str, tmp_path: Path, page: Path
) -> None:
    """Both pictures are seen whole, and the script in one of them has not painted it red."""
    shot = tmp_path / "shot.png"

    browse(chromium, tmp_path, "--window-size=500,1400", f"--screenshot={shot}", page.as_uri())

    png = shot.read_bytes()
    assert count_pixels(png, BLUE) > 19_000  # of 20,000: the corners are round
    assert count_pixels(png, GREEN) > 19_000
    assert count_pixels(png, RED) == 0


def test_a_script_is_stopped_by_the_policy_alone(chromium: str, tmp_path: Path, page: Path) -> None:
    """Were something not escaped after all, the policy forbids it; without the policy, it runs."""
    script = "<script>document.title = 'CHANGED'</script></body>"
    document = page.read_text(encoding="utf-8").replace("</body>", script)
    with_policy, without = tmp_path / "with.html", tmp_path / "without.html"
    with_policy.write_text(document, encoding="utf-8")
    without.write_text(re.sub(r"<meta http-equiv=[^>]*>", "", document, count=1), encoding="utf-8")

    changed = {
        path.name: "<title>CHANGED</title>"
        in browse(chromium, tmp_path, "--dump-dom", path.as_uri())
        for path in (with_policy, without)
    }

    assert changed == {"with.html": False, "without.html": True}
