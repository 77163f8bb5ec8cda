"""That the files of the page are served as a browser has to take them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from pathlib import Path

import aiohttp

from support.daemons.run_daemons import serving
from support.runs.acting import invoke, say
from support.runs.hosted import Premises
from vibe_llms.daemons.agents.viewing import produce_view
from vibe_llms.daemons.arrivals import find_hosts
from vibe_llms.daemons.server import Server, ServerSettings
from vibe_llms.foundation.package_data import access_data
from vibe_llms.invocables import produce_invoker

TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


async def test_each_file_comes_with_its_type_and_the_policy(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        async with daemon.session.get(f"{daemon.url}/page") as answer:
            index = await answer.text()
            assert (answer.status, answer.url.path) == (200, "/page/")
            policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        (styles,) = re.findall(r"<style data-href=\"page.css\">(.*?)</style>", index, re.DOTALL)
        assert styles.encode() == (access_data("page") / "page.css").read_bytes()
        digest = base64.b64encode(hashlib.sha256(styles.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
        assert 'rel="stylesheet"' not in index
        assert not re.search(r"<script(?![^>]* src=)|\son\w+=|\sstyle=|https?:", index)
        for path in access_data("page").iterdir():
            if path.suffix not in TYPES:
                continue
            async with daemon.session.get(f"{daemon.url}/page/{path.name}") as answer:
                assert answer.status == 200, path
                assert answer.content_type == TYPES[path.suffix]
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert answer.headers["content-encoding"] == "gzip"
                assert await answer.read() == path.read_bytes()


async def test_libraries_are_sent_compressed_unless_the_client_cannot_read_it(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as daemon:
        for name in ("rendering", "formulas"):
            data = (access_data("page") / f"{name}.js.gz").read_bytes()
            url, tags = f"{daemon.url}/page/{name}.js", set()
            for encoding, expected in (("gzip, br", data), ("identity", gzip.decompress(data))):
                headers = {"Accept-Encoding": encoding}
                session = daemon.session
                async with session.get(url, headers=headers, auto_decompress=False) as answer:
                    assert answer.content_type == "text/javascript"
                    assert answer.headers["vary"] == "accept-encoding"
                    assert await answer.read() == expected
                    tags.add(answer.headers["etag"])
            assert len(tags) == 2


def test_each_library_is_the_one_that_is_described() -> None:
    text = (access_data("page") / "README.rst").read_text("utf-8")
    for path in access_data("page").glob("*.gz"):
        data = gzip.decompress(path.read_bytes())
        assert f"{len(data):,} bytes" in text, path
        assert hashlib.sha256(data).hexdigest() in text, path


async def test_the_root_leads_a_browser_to_the_page_and_tells_a_program_what_it_is(
    tmp_path: Path,
) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    async with serving(tmp_path) as daemon:
        async with daemon.session.get(f"{daemon.url}/", headers=browser) as answer:
            assert (answer.status, answer.url.path) == (200, "/page/")
            assert answer.content_type == "text/html"
        async with daemon.session.get(f"{daemon.url}/") as answer:
            assert (await answer.json())["name"] == "vibe-llms"


async def test_diagrams_are_drawn_in_a_frame_that_is_sent_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        url = f"{daemon.url}/page/diagram.html"
        async with daemon.session.get(url) as answer:
            policy, tag = answer.headers["content-security-policy"], answer.headers["etag"]
            assert len(await answer.read()) > 1_000_000
        assert policy.startswith(
            "sandbox allow-scripts; frame-ancestors 'self'; default-src 'none'"
        )
        assert "connect-src" not in policy
        async with daemon.session.get(url, headers={"If-None-Match": tag}) as answer:
            assert (answer.status, await answer.read()) == (304, b"")
        async with daemon.session.get(
            f"{daemon.url}/page/", headers={"If-None-Match": tag}
        ) as answer:
            assert answer.status == 200


async def test_strangers_pages_and_other_paths_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
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


def pay() -> str:
    """Pays."""
    return "paid"


async def test_a_view_shows_all_to_its_key_alone_and_reaches_who_runs(tmp_path: Path) -> None:
    tool = produce_invoker(pay, effect="once", needs_approval=True)
    async with Premises(tmp_path, (tool,)) as premises:
        spec = premises.spec([invoke("pay")], [say("Done.")])
        run_id = await premises.start(spec, subject="ann")  # of a daemon that knows its clients
        await premises.wait(run_id, "waiting", subject="ann")
        hosts = find_hosts("127.0.0.1", ()) or ()
        view = produce_view(premises.runs.application, premises.store, key="k", hosts=hosts)
        server = Server(view, ServerSettings(port=0))
        async with server, aiohttp.ClientSession(server.urls[0]) as session:
            for key, host, status in (
                ("", "", 401),
                ("other", "", 401),
                ("k", "evil.example", 403),
            ):
                headers = {"Authorization": f"Bearer {key}", **({"Host": host} if host else {})}
                for path in ("/runs", "/conversations", f"/runs/{run_id}/events"):
                    async with session.get(path, headers=headers) as answer:
                        assert answer.status == status
            own = {"Authorization": "Bearer k"}
            for path in ("/runs", f"/runs/{run_id}/resume", f"/runs/{run_id}/fork"):
                async with session.post(path, json={}, headers=own) as answer:
                    assert answer.status in (404, 405), path
            async with session.get(f"/conversations/{run_id}", headers=own) as answer:
                assert (await answer.json())["count"] == 2
            path = f"/runs/{run_id}/approvals"
            async with session.get(path, headers=own) as answer:
                (waiting,) = (await answer.json())["data"]
            said = {"digest": waiting["request"]["digest"], "decision": "allow"}
            async with session.post(path, json=said, headers=own) as answer:
                assert answer.status == 200
            await premises.wait(run_id, "ended", subject="ann")
