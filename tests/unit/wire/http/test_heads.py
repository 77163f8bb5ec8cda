"""What a URL names, and the head of a request."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.secrets import Secret
from vibe_llms.wire.http.heads import compose_head, compose_tunnel, parse_target


@pytest.mark.parametrize(
    ("url", "host", "port", "authority", "path"),
    [
        ("http://a.example", "a.example", 80, "a.example", "/"),
        ("https://a.example/v1/x", "a.example", 443, "a.example", "/v1/x"),
        ("https://a.example:443/", "a.example", 443, "a.example", "/"),
        ("http://A.Example:8080?q=%20&r=/", "a.example", 8080, "a.example:8080", "/?q=%20&r=/"),
        ("http://[::1]:11434/api", "::1", 11434, "[::1]:11434", "/api"),
        ("http://a.example/x#y", "a.example", 80, "a.example", "/x"),
        ("https://bücher.example/é?ü=1", "xn--bcher-kva.example", 443, None, "/%C3%A9?%C3%BC=1"),
        ("http://u:w@a.example/", "a.example", 80, "a.example", "/"),
    ],
)
def test_a_url_says_whom_to_ask_and_what(
    url: str, host: str, port: int, authority: str | None, path: str
) -> None:
    """The usual port is not said, nor a fragment, nor who asks."""
    target = parse_target(url)

    assert (target.host, target.port, target.path) == (host, port, path)
    assert target.authority == (authority or host)
    assert target.is_secure is url.startswith("https")


def test_who_asks_may_stand_in_the_address() -> None:
    """With quoted letters; and nobody sees it."""
    target = parse_target("http://somebody:canary%20w%C3%B6rd@a.example/")
    word = base64.b64encode("somebody:canary wörd".encode()).decode()

    assert f"Authorization: Basic {word}\r\n".encode() in compose_head("GET", target, {}, 0)
    assert word not in repr(target)


def test_who_asks_is_said_once() -> None:
    """Two words on it cannot both be meant."""
    target = parse_target("http://somebody:word@a.example/")

    with pytest.raises(ValueError, match="credentials both"):
        compose_head("GET", target, {"authorization": Secret("Bearer x")}, 0)


def test_a_head_is_written_with_what_is_given_before_what_is_usual() -> None:
    """A header that is given stands in place of ours, however it is spelt."""
    target = parse_target("https://a.example/x?y")
    headers = {"user-agent": "me", "HOST": "b.example", "X-Key": Secret("word")}

    head = compose_head("POST", target, headers, 7).decode().split("\r\n")

    assert head == [
        "POST /x?y HTTP/1.1",
        "user-agent: me",
        "HOST: b.example",
        "X-Key: word",
        "Accept: */*",
        "Accept-Encoding: gzip, deflate",
        "Content-Length: 7",
        "",
        "",
    ]


def test_a_proxy_is_told_the_whole_address_and_who_asks_of_it() -> None:
    """A tunnel is asked for by host and port alone."""
    target, proxy = parse_target("http://a.example:81/x?y"), parse_target("http://u:w@p.example")
    secure = parse_target("https://[::1]/x")

    head = compose_head("GET", target, {}, 0, proxy=proxy)
    tunnel = compose_tunnel(secure, proxy)

    assert head.startswith(b"GET http://a.example:81/x?y HTTP/1.1\r\n")
    assert b"\r\nHost: a.example:81\r\n" in head
    assert tunnel.startswith(b"CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n")
    for each in (head, tunnel):
        assert b"\r\nProxy-Authorization: Basic dTp3\r\n" in each


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "POST", "PUT", "PATCH"])
def test_an_empty_body_is_told_where_one_is_expected(method: str) -> None:
    """And not where none is."""
    head = compose_head(method, parse_target("http://a.example"), {}, 0)

    assert (b"Content-Length: 0" in head) is (method in ("POST", "PUT", "PATCH"))


@pytest.mark.parametrize(
    "name", ["", "a b", "a:b", "a\r\nb", "é", "a\0", "Content-Length", "transfer-encoding"]
)
def test_what_is_no_header_of_a_callers_own_is_refused(name: str) -> None:
    """Where the body ends is for nobody else to say."""
    with pytest.raises(ValueError, match="name"):
        compose_head("GET", parse_target("http://a.example"), {name: "x"}, 0)


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n", "\0"])
def test_the_end_of_a_line_in_a_header_is_refused_by_its_name(end: str) -> None:
    """The value is not shown."""
    with pytest.raises(RequestError, match="'X-Key'") as caught:
        compose_head("GET", parse_target("http://a.example"), {"X-Key": f"canary{end}"}, 0)
    assert "canary" not in str(caught.value)


@examples(300)
@given(
    st.text(alphabet="a/?#%&=é \t\r\n\0:@[]\\.\x7f\u2028", max_size=20),
    st.text(max_size=8),
    st.text(max_size=12),
)
def test_nothing_smuggles_a_line_into_a_head(tail: str, name: str, value: str) -> None:
    """Whatever stands in an address or a header: it is one line each, or refused."""
    try:
        target = parse_target(f"http://a.example/{tail}")
        head = compose_head("GET", target, {name: value}, 0)
    except (ValueError, RequestError):
        return

    lines = head.split(b"\r\n")
    assert len(lines) == 8  # the first, the header, four of ours, and two empty ones
    assert head.count(b"\n") == head.count(b"\r") == len(lines) - 1
    assert lines[0].count(b" ") == 2


@pytest.mark.parametrize(
    "url", ["http://a b/", "http://a\nb/", "http://a.example/\r\nX: y", "http://exa\\mple/"]
)
def test_what_cannot_be_written_is_refused(url: str) -> None:
    """Though what reads addresses would take it out without a word."""
    with pytest.raises(ValueError, match=r"character|host"):
        parse_target(url)
