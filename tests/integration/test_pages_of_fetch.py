"""The ensemble ``fetch`` makes readable text of pages, and cannot be led into a private network."""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import threading
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from support.runs.invoking import connect_ensembles, produce_ensemble_context
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.invocables.invokers import Effect
from vibe_llms.invocables.outcomes import Outcome
from vibe_llms.invocables.pages import markdown
from vibe_llms.invocables.pages.addresses import is_public
from vibe_llms.invocables.pages.markdown import write_markdown
from vibe_llms.invocables.pages.markup import split
from vibe_llms.invocables.pages.page_bodies import decode, read_body
from vibe_llms.invocables.shipped.fetch import survey_ensembles
from vibe_llms.invocables.shipped.fetch.ensemble import TEXT_CHARACTERS, FetchEnsemble
from vibe_llms.invocables.shipped.fetch.settings import FetchSettings

PUBLIC = "127.0.0.2"
"""Counts as public in these tests; all else on this machine counts as private."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[int]:
    """A server at both addresses; gives its port."""
    server = web.Server(handler)
    runner = web.ServerRunner(server)
    await runner.setup()
    first = web.TCPSite(runner, "127.0.0.1", 0)
    await first.start()
    port = runner.addresses[0][1]
    await web.TCPSite(runner, PUBLIC, port).start()
    try:
        yield port
    finally:
        await runner.cleanup()


def produce_fetch(resolve: Any = None, **options: Any) -> FetchEnsemble:
    async def look_up(host: str, port: int) -> list[str]:
        return {"site.example": [PUBLIC], "inside.example": ["127.0.0.1"]}.get(host, [])

    return FetchEnsemble(
        FetchSettings(**options),
        resolve=resolve or look_up,
        is_allowed=lambda address: address == PUBLIC,
    )


async def fetch(handler: Handler, path: str = "/", resolve: Any = None, **options: Any) -> Outcome:
    """Fetches from a server of the test's own."""
    start = {"start": options.pop("start")} if "start" in options else {}
    async with (
        serving(handler) as port,
        connect_ensembles(produce_fetch(resolve, **options)) as invoke,
    ):
        outcome: Outcome = await invoke(
            "fetch_page", url=f"http://site.example:{port}{path}", **start
        )
    return outcome


def answer(
    body: bytes | str, kind: str = "text/plain; charset=utf-8", status: int = 200, **headers: str
) -> Handler:
    data = body.encode() if isinstance(body, str) else body

    async def handle(request: web.Request) -> web.StreamResponse:
        names = {name.replace("_", "-"): text for name, text in headers.items()}
        return web.Response(body=data, status=status, headers={"Content-Type": kind, **names})

    return handle


PAGE = """<!DOCTYPE html><html><head><title>My  page</title><style>x{}</style>
<script>if (a<b) { alert("<p>no</p>") }</script></head><body><nav><a href=/>Home</a></nav>
<!-- not this --><h1>Hello &amp; bye</h1><p>Some <b>bold</b> and <a href="sub/p.html?a=1&amp;b=2">a
link</a>, <code>x = 1</code>.<br>next<ul><li>one<li>two<ul><li>nested</ul></li></ul>
<ol><li>first<li>second</ol><pre>def f():
    return 1 &lt; 2</pre><blockquote><p>quoted</p></blockquote>
<table><tr><th>a<th>b<tr><td>1<td>2</table><img alt="pic" src=x><hr>
<a href="javascript:alert(1)">bad</a> 1 < 2</body></html>"""
MARKDOWN = """# My page

# Hello & bye

Some **bold** and [a link](http://e.org/d/sub/p.html?a=1&b=2), `x = 1`.
next

- one
- two
  - nested

1. first
2. second

```
def f():
    return 1 < 2
```

> quoted

| a | b
| 1 | 2

pic

---
bad 1 < 2"""


def test_a_page_becomes_markdown() -> None:
    """Headings, emphasis, links as whole addresses, lists, code, quotations, tables."""
    assert write_markdown(PAGE, "http://e.org/d/") == MARKDOWN


def test_a_page_that_is_nothing_but_navigation_is_shown() -> None:
    """What stands around the content is left out only where there is content."""
    page = "<nav><a href=/a>First</a></nav><footer>Last</footer>"

    assert write_markdown(page, "http://e.org/") == "[First](http://e.org/a)\n\nLast"


@pytest.mark.slow
@examples(200)
@given(
    st.lists(
        st.sampled_from(
            [
                *(
                    "<",
                    ">",
                    "</",
                    "<!--",
                    "-->",
                    "<a href='",
                    '"',
                    "'",
                    "<p",
                    "<p>",
                    "</p>",
                    "&amp",
                ),
                *("<script>", "</script", "<ul>", "<li>", "</ul>", "<pre>", "</pre>", "<td>", "x "),
                *("<blockquote>", "<b>", "</a>", "<svg><title>", "<?x", "<!D", "=", " ", "\n", "é"),
            ]
        ),
        max_size=30,
    )
)
def test_no_markup_is_too_broken(pieces: list[str]) -> None:
    """Whatever it is, text comes of it."""
    source = "".join(pieces)

    text = write_markdown(source, "http://e.org/")

    assert "<script" not in text
    assert "\n\n\n" not in strike_code(text)


def strike_code(markdown: str) -> str:
    """Takes out the blocks of code, whose line ends are the page's own."""
    lines, fence = [], ""
    for line in markdown.splitlines():
        bare = line.lstrip("> ")
        if fence:
            fence = "" if bare == fence else fence
        elif bare.startswith("```"):
            fence = bare
        else:
            lines.append(line)
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<pre><ul><p", ""),
        ("<pre>\n\n\n\n\n</pre>", ""),
        ("a<pre> \n</pre>b", "a\n\nb"),
        ("<pre>a\n\n\n\nb</pre>", "```\na\n\n\n\nb\n```"),
        ("<pre><p>a<p>b<ul><li>c</pre>", "```\na\nb\n- c\n```"),
        ("<blockquote><pre>a\nb</pre></blockquote>", "> ```\n> a\n> b\n> ```"),
        ("<pre>a\n```\nb</pre>", "````\na\n```\nb\n````"),
        ("<pre>a<pre>b</pre>c", "```\na\nb\nc\n```"),
    ],
)
def test_code_is_fenced_and_keeps_its_lines(source: str, expected: str) -> None:
    """Markup in it adds no empty lines, and where there is no code there is no fence."""
    assert write_markdown(source, "http://e.org/") == expected


@given(st.text(alphabet="<>/abc=\"' &;-!\n", max_size=200))
def test_cutting_takes_every_character_once(source: str) -> None:
    """No text is given twice, and what is no markup is given whole."""
    texts = [piece for piece in split(source) if isinstance(piece, str)]

    assert sum(map(len, texts)) <= len(source)
    if "<" not in source and "&" not in source:
        assert "".join(texts) == source


@pytest.mark.slow
@pytest.mark.parametrize(
    "pattern",
    [
        *("<", "<a ", "<!--", "<a b='>", "<script>", "</a>x", "<blockquote>x", "&", "<a b=\"'"),
        *(
            "</x",
            "<a href=x>y",
            "<a x=y z",
            "<b>",
            "<title>",
            "<ul><li>",
            "<pre>\n",
            "<svg>",
            "<script></SCRIPT>",
        ),
    ],
)
def test_time_grows_with_the_page_and_no_faster(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever repeats something hostile gains nothing: the steps taken are counted."""
    taken = [count_characters_looked_at(pattern * count, monkeypatch) for count in (500, 1_000)]

    assert taken[1] <= taken[0] * 2.5 + 10_000


def count_characters_looked_at(source: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Counts how far ``find`` has to look, which is what could become quadratic."""
    from vibe_llms.invocables.pages import markup

    looked = 0

    class Counting(markup._Finder):
        def find(self, text: str, place: int) -> int:
            nonlocal looked
            known = text in self._missing
            found = super().find(text, place)
            looked += 0 if known else (len(source) if found < 0 else found) - place
            return found

    with monkeypatch.context() as patch:
        patch.setattr(markup, "_Finder", Counting)
        write_markdown(source, "http://e.org/")
    return looked


def test_a_page_that_takes_too_long_is_shown_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says so."""
    monkeypatch.setattr(markdown, "SECONDS", -1)

    assert "too complex" in write_markdown("<p>x" * 1_000, "http://e.org/")


async def test_text_and_json_come_as_they_are() -> None:
    """Behind a line that says what it is."""
    outcome = await fetch(answer('{"a": [1,  2]}', "application/json"), "/x?y=1#z")

    first, _, text = outcome.text.partition("\n")
    assert text == '{"a": [1,  2]}'
    assert first.startswith("[http://site.example:")
    assert first.endswith("/x?y=1 (application/json)]")
    assert not outcome.is_error


async def test_html_is_recognized_by_its_type() -> None:
    """The text of another type stays what it is."""
    outcome = await fetch(answer("<p>a<p>b", "text/html"))

    assert outcome.text.endswith("\na\n\nb")


async def test_what_is_no_text_is_told_by_its_type_and_size() -> None:
    """Its body is not read."""
    outcome = await fetch(answer(b"\x89PNG" * 100, "image/png"))
    lying = await fetch(answer(b"\0\1\2", "text/plain"))

    assert outcome.text.endswith("(image/png) is not text: 400 bytes]")
    assert lying.text.endswith("(text/plain) is not text: 3 bytes]")


@pytest.mark.parametrize(
    ("data", "charset", "text"),
    [
        ("é€".encode(), "utf-8", "é€"),
        ("é€".encode("cp1252"), "iso-8859-1", "é€"),
        ("日本".encode("shift_jis"), "Shift_JIS", "日本"),
        ("日本".encode("utf-16"), "", "日本"),
        (b"\xef\xbb\xbfx", "latin-1", "x"),
        ("<meta charset='koi8-r'>да".encode("koi8-r"), "", "<meta charset='koi8-r'>да"),
        (b"a\xff", "", "a\ufffd"),
        (b"abc", "zip", "abc"),
        (b"abc", "punycode", "abc"),
        (b"abc", "idna", "abc"),
        (b"\\x41", "unicode_escape", "\\x41"),
        (b"+AGE-", "utf-7", "+AGE-"),
        (b"abc", "../../x\0", "abc"),
    ],
)
def test_the_charset_is_taken_where_it_is_harmless(data: bytes, charset: str, text: str) -> None:
    """What is no charset, or one that could be used against us, is UTF-8."""
    assert decode(data, charset) == text


async def test_a_long_page_is_read_in_parts() -> None:
    """A note says how to go on."""
    text = "".join(f"{number} " for number in range(20_000))

    first = await fetch(answer(text))
    second = await fetch(answer(text), start=TEXT_CHARACTERS)
    beyond = await fetch(answer(text), start=1_000_000)

    body, _, note = first.text.partition("\n")[2].rpartition("\n")
    assert note == f"[there is more; continue with start={TEXT_CHARACTERS}]"
    assert body + second.text.partition("\n")[2].rpartition("\n")[0] == text[: 2 * TEXT_CHARACTERS]
    assert (beyond.is_error, "has only" in beyond.text) == (True, True)


async def test_an_error_of_the_server_is_an_error_with_its_words() -> None:
    """The model learns the status and the beginning of what was said."""
    outcome = await fetch(answer("<h1>Gone</h1>", "text/html", status=410))

    assert outcome.is_error
    assert outcome.text.endswith("answered with status 410]\n# Gone")


@pytest.mark.slow
async def test_a_packed_page_is_unpacked_in_bounds() -> None:
    """A bomb of a thousand times its size is cut where the limit is."""
    bomb = gzip.compress(b"x" * 50_000_000)
    assert len(bomb) < 100_000

    outcome = await fetch(answer(bomb, Content_Encoding="gzip"), page_bytes=100_000)
    small = await fetch(answer(gzip.compress(b"small"), Content_Encoding="gzip"))
    damaged = await fetch(answer(b"no gzip", Content_Encoding="gzip"))
    strange = await fetch(answer(b"x", Content_Encoding="br, gzip"))

    assert outcome.text.count("x") <= TEXT_CHARACTERS + 10
    assert small.text.endswith("\nsmall")
    assert "damaged" in damaged.text
    assert "not supported" in strange.text
    assert damaged.is_error
    assert strange.is_error


@pytest.mark.slow
async def test_unpacking_takes_no_more_memory_than_the_limit() -> None:
    """A bomb is never unpacked beyond what is kept of it."""

    async def give() -> AsyncIterator[bytes]:
        yield bomb

    bomb = gzip.compress(b"x" * 50_000_000)
    tracemalloc.start()
    try:
        body = await read_body(give(), "gzip", 100_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (len(body.data), body.is_cut) == (100_000, True)
    assert peak < 2_000_000


async def test_a_body_without_an_end_is_left() -> None:
    """Whether it comes fast or slowly."""

    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        piece = b"x" * 65_536 if request.path == "/fast" else b"x"
        while True:
            await response.write(piece)
            await asyncio.sleep(0 if request.path == "/fast" else 0.01)

    fast = await fetch(flood, "/fast", page_bytes=40_000)
    slow = await fetch(flood, "/slow", seconds=0.3)

    assert fast.text.endswith("\n[cut: only 40000 bytes of the page were read]")
    assert slow.text == "The page did not load within 0.3 seconds."
    assert (fast.is_error, slow.is_error) == (False, True)


async def redirect(request: web.Request) -> web.StreamResponse:
    """Sends everybody to where the query says."""
    target = request.query.get("to")
    if target is None:
        return web.Response(text="arrived")
    return web.Response(
        status=302, headers={"Location": target.replace("PORT", f"{request.url.port}")}
    )


async def test_redirections_are_followed_so_far_and_no_further() -> None:
    """A relative one, one elsewhere, one in a circle."""
    outcome = await fetch(redirect, "/a?to=/b")
    circle = await fetch(redirect, "/?to=/?to=/%3Fto%3D/", redirects=1)

    assert outcome.text.endswith("/b (text/plain)]\narrived")
    assert circle.text == "The page redirects more than 1 times."


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:PORT/",
        "http://inside.example:PORT/",
        "//127.0.0.1:PORT/",
        "http://[::ffff:127.0.0.1]:PORT/",
        "http://2130706433:PORT/",
        "http://user:word@site.example:PORT/",
        "file:///etc/passwd",
        "ftp://site.example/",
        "javascript:alert(1)",
        "http://site.example\\@127.0.0.1:PORT/",
        "http://",
        "http://[",
    ],
)
async def test_a_redirection_leads_nowhere_private(target: str) -> None:
    """Each step goes through the same checks."""
    outcome = await fetch(redirect, f"/?to={target}")

    assert outcome.is_error
    assert "arrived" not in outcome.text


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "localhost"),
        *("[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]", "[fe80::1%25lo]"),
        *("localhost.", "LOCALHOST", "127.0.0.1.", "①②⑦.⓪.⓪.①", "127。0。0。1"),
    ],
)
async def test_this_machine_is_refused_however_it_is_called(host: str) -> None:
    """By the real rules and the system's own resolver; nothing is sent there."""
    asked = []

    async def handle(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        return web.Response(text="secret")

    async with serving(handle) as port, connect_ensembles(FetchEnsemble(FetchSettings())) as invoke:
        outcome = await invoke("fetch_page", url=f"http://{host}:{port}/")

    assert outcome.is_error
    assert "secret" not in outcome.text
    assert asked == []


async def test_a_name_that_changes_its_meaning_is_connected_to_what_was_checked() -> None:
    """Who answers the second question with another address (rebinding) is not asked a second."""
    questions = 0

    async def resolve(host: str, port: int) -> list[str]:
        nonlocal questions
        questions += 1
        return [PUBLIC] if questions == 1 else ["127.0.0.1"]

    async def handle(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        return web.Response(text=request.transport.get_extra_info("sockname")[0])

    outcome = await fetch(handle, resolve=resolve)

    assert outcome.text.endswith(f"\n{PUBLIC}")
    assert questions == 1


@pytest.mark.parametrize("addresses", [["127.0.0.1", PUBLIC], [PUBLIC, "127.0.0.1"], ["::1"]])
async def test_a_name_with_one_private_address_is_refused(addresses: list[str]) -> None:
    """None of its addresses is connected to then."""

    async def resolve(host: str, port: int) -> list[str]:
        return addresses

    outcome = await fetch(answer("secret"), resolve=resolve)

    assert outcome.is_error
    assert "site.example is not on the public network" in outcome.text


async def test_what_the_user_exempts_is_reached() -> None:
    """A host by its name, and it alone."""
    async with (
        serving(answer("inside")) as port,
        connect_ensembles(produce_fetch(private_hosts=("Inside.example",))) as invoke,
    ):
        inside = await invoke("fetch_page", url=f"http://inside.example:{port}/")
        other = await invoke("fetch_page", url=f"http://127.0.0.1:{port}/")

    assert inside.text.endswith("\ninside")
    assert other.is_error


@pytest.mark.parametrize(
    "url",
    [
        "",
        "site.example",
        "file:///etc/passwd",
        "ftp://site.example/",
        "data:text/plain,x",
        "http://",
        "http:///x",
        "http://user@site.example/",
        "http://user:word@site.example/",
        "http://:word@site.example/",
        "http://site.example:99999/",
        "http://site.example:x/",
        "http://site.example/\r\nX-Header: 1",
        "http://site.example/\0",
        "http://site.example\t/",
        "http://site.example\\@127.0.0.1/",
        "http://[::1/",
        "http://" + "a" * 5_000,
        "--output=/tmp/x",
        "-K/etc/passwd",
        "http://site.example /",
        "\ud800",
    ],
)
async def test_what_is_no_address_is_refused_in_words(url: str) -> None:
    """Before anybody is asked."""
    asked = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return []

    async with connect_ensembles(produce_fetch(resolve)) as invoke:
        outcome = await invoke("fetch_page", url=url)

    assert outcome.is_error
    assert len(outcome.text) < 500
    assert "Traceback" not in outcome.text
    assert "Error:" not in outcome.text
    assert asked == []


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        *[(each, True) for each in ("93.184.216.34", "1.1.1.1", "2606:4700::1111")],
        *[(each, True) for each in ("64:ff9b::1.1.1.1", "::ffff:1.1.1.1")],
        *[(each, False) for each in ("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.0.1")],
        *[(each, False) for each in ("169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1")],
        *[(each, False) for each in ("255.255.255.255", "192.0.2.1", "198.18.0.1", "240.0.0.1")],
        *[(each, False) for each in ("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1")],
        *[(each, False) for each in ("fec0::1", "ff02::1", "2001:db8::1", "::127.0.0.1")],
        *[(each, False) for each in ("::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b:1::1")],
        *[(each, False) for each in ("2002:7f00:1::", "2002:a00:1::", "", "x", "1.1.1")],
    ],
)
def test_public_is_what_everybody_can_reach(address: str, expected: bool) -> None:
    """Whatever is near, special, or stands for such a one is not."""
    assert is_public(address) is expected


@given(st.ip_addresses(v=4))
def test_an_address_within_another_is_judged_as_itself(address: ipaddress.IPv4Address) -> None:
    """Mapped or translated into IPv6, it is as public as it is."""
    number = int(address)

    for prefix in (0xFFFF << 32, 0x64FF9B << 96):
        within = str(ipaddress.IPv6Address(prefix | number))
        assert is_public(within) is is_public(str(address))


async def test_nothing_is_sent_but_the_request() -> None:
    """No cookie comes back, none of our variables, no name of a user."""
    seen: list[dict[str, str]] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        seen.append(dict(request.headers))
        if request.path == "/a":
            return web.Response(status=302, headers={"Location": "/b", "Set-Cookie": "a=b; Path=/"})
        return web.Response(text="x")

    await fetch(handle, "/a")

    assert [set(headers) for headers in seen] == [
        {"Host", "Accept", "Accept-Encoding", "Connection", "User-Agent"}
    ] * 2


@pytest.mark.parametrize("ending", ["whole", "cut", "time", "cancelled", "refused", "broken"])
async def test_nothing_is_left_of_a_fetch(ending: str) -> None:
    """No task, no thread that is not about to end, no socket."""
    released = asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        await response.write(b"x" * 100_000)
        if ending in ("time", "cancelled"):
            await released.wait()
        if ending == "broken":
            assert request.transport is not None
            request.transport.abort()
        return response

    def count() -> tuple[int, int]:
        return (
            len(list(Path("/dev/fd").iterdir())),
            sum(not each.name.startswith("vibe-llms") for each in threading.enumerate()),
        )

    def is_within(after: tuple[int, int], before: tuple[int, int]) -> bool:
        return after[0] <= before[0] and after[1] <= before[1]

    options: dict[str, Any] = {"seconds": 0.3} if ending == "time" else {}
    options |= {"page_bytes": 1_000} if ending == "cut" else {}
    host = "inside.example" if ending == "refused" else "site.example"
    async with serving(handle) as port, connect_ensembles(produce_fetch(**options)) as invoke:
        before, tasks = count(), asyncio.all_tasks()
        call = asyncio.ensure_future(invoke("fetch_page", url=f"http://{host}:{port}/"))
        if ending == "cancelled":
            await asyncio.sleep(0.1)
            call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        left: set[Any] = set()
        released.set()
        for _ in range(3_000):  # the server's side of the connection ends a moment later
            left = asyncio.all_tasks() - tasks
            if is_within(count(), before) and not left:
                break
            await asyncio.sleep(0.02)
        assert is_within(count(), before), (count(), before)
        assert left == set()


async def test_a_fetch_asks_only_where_the_user_wants_it() -> None:
    """It changes nothing, and may be done again."""
    (invoker,) = await produce_fetch().survey()
    (asking,) = await produce_fetch(ask=True).survey()

    assert (invoker.needs_approval, asking.needs_approval) == (False, True)
    assert invoker.effect is Effect.IDEMPOTENT


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seconds": -1}, "fetch.seconds: It must be a number of seconds above 0"),
        ({"redirects": 21}, "fetch.redirects: It must be a whole number from 0 to 20"),
        ({"ask": "no"}, "fetch.ask: It must be true or false, not 'no'."),
        ({"private_hosts": "x"}, "fetch.private_hosts: It must be a list of texts"),
        ({"bytes": 1}, "Unknown setting; did you mean 'page_bytes'?"),
    ],
)
def test_a_wrong_setting_of_fetch_is_named(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    """With its place and what is right there."""
    with pytest.raises(ConfigurationError) as caught:
        survey_ensembles()[0].factory(produce_ensemble_context("fetch", tmp_path, **options))

    assert words in str(caught.value)
