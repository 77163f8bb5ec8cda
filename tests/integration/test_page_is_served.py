"""That the files of the page are served as a browser has to take them."""

from __future__ import annotations

import re
from pathlib import Path

from run_daemons import serving
from vibe_llms.resources import access_data

TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


async def test_each_file_comes_with_its_type_and_the_policy(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        async with daemon.session.get(f"{daemon.url}/page") as answer:
            index = await answer.text()
            assert (answer.status, answer.url.path) == (200, "/page/")
            policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert not re.search(r"<script(?![^>]* src=)|\son\w+=|\sstyle=|https?:", index)
        for path in access_data("page").iterdir():
            if path.suffix not in TYPES:
                continue
            async with daemon.session.get(f"{daemon.url}/page/{path.name}") as answer:
                assert answer.status == 200, path
                assert answer.content_type == TYPES[path.suffix]
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert await answer.read() == path.read_bytes()


async def test_strangers_pages_and_other_paths_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, hosts=frozenset({"127.0.0.1"})) as daemon:
        for path, headers, status in (
            ("/page/", {"Host": "evil.example"}, 403),
            ("/page/../index.html", {}, 404),
            ("/page/%2e%2e/flows/page.js", {}, 404),
        ):
            async with daemon.session.get(daemon.url + path, headers=headers) as answer:
                assert answer.status == status, path


def test_no_script_makes_markup_of_words() -> None:
    sources = [path.read_text("utf-8") for path in access_data("page").glob("*.js")]
    assert len(sources) > 5
    for source in sources:
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b", source)
