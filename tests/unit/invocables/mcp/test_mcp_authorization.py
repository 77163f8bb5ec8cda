"""Being let in by a server that wants OAuth."""

from __future__ import annotations

import asyncio
import json
import logging
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import attrs
import httpx2
import pytest
from aiohttp import ClientSession

from support.mcp.oauth_servers import AgreeingPerson, OAuthServers, run_oauth_servers
from vibe_llms.exceptions import ConfigurationError, EnsembleError
from vibe_llms.invocables.mcp.oauth.flow import AUTHORIZATIONS_LIMIT, Authorization
from vibe_llms.invocables.mcp.oauth.settings import (
    OAuthSettings,
    TellingAuthorizer,
)
from vibe_llms.invocables.mcp.pausable_timeout import PausableTimeout
from vibe_llms.invocables.mcp.settings import read_servers
from vibe_llms.tables.reading import read_table


@pytest.fixture
async def servers() -> AsyncIterator[OAuthServers]:
    async with run_oauth_servers() as servers:
        yield servers


async def ask(authorization: Authorization, url: str, times: int = 1) -> list[str]:
    async with httpx2.AsyncClient(auth=authorization, verify=False) as client:
        answers = await asyncio.gather(*(client.get(url) for _ in range(times)))
    assert {answer.status_code for answer in answers} == {200}
    return [answer.text for answer in answers]


async def test_a_person_is_asked_once_and_what_was_granted_outlives_the_process(
    servers: OAuthServers, tmp_path: Path
) -> None:
    """The second process needs nobody, and finds the tokens in a file of the user's alone."""
    person = AgreeingPerson()
    folder = tmp_path / "grants"
    first = Authorization("notes", servers.url, directory=folder, authorizer=person)
    [granted] = await ask(first, servers.url)

    [again] = await ask(Authorization("notes", servers.url, directory=folder), servers.url)

    assert again == granted
    assert servers.asked["authorized"] == servers.asked["registered"] == len(person.seen) == 1
    [file] = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_many_requests_at_once_are_one_authorization(servers: OAuthServers) -> None:
    """Who waits for the door takes what the first has been granted."""
    person = AgreeingPerson()
    authorization = Authorization("notes", servers.url, authorizer=person)

    answers = await ask(authorization, servers.url, times=8)

    assert len(set(answers)) == 1
    assert servers.asked["authorization_code"] == len(person.seen) == 1


async def test_requests_that_are_let_in_do_not_wait_for_each_other(servers: OAuthServers) -> None:
    """The official package holds a lock while it waits for an answer; here nothing is held."""
    authorization = Authorization("notes", servers.url, authorizer=AgreeingPerson())
    await ask(authorization, servers.url)

    flows = [authorization.async_auth_flow(httpx2.Request("GET", servers.url)) for _ in range(2)]
    requests = [await anext(flow) for flow in flows]  # both are on their way, neither answered

    assert all(each.headers["Authorization"].startswith("Bearer ") for each in requests)
    for flow in flows:
        await flow.aclose()


async def test_a_token_that_has_ended_is_renewed_after_a_restart_by_the_right_server(
    servers: OAuthServers, tmp_path: Path
) -> None:
    """When it ends and where to renew it are kept with it."""
    servers.expires_in = -10
    person = AgreeingPerson()
    await ask(
        Authorization("notes", servers.url, directory=tmp_path, authorizer=person),
        servers.url,
    )
    servers.good_tokens.clear()
    servers.expires_in = 3600
    before = servers.asked.copy()

    await ask(Authorization("notes", servers.url, directory=tmp_path), servers.url)

    assert servers.asked["refresh_token"] == before["refresh_token"] + 1
    assert servers.asked["challenged"] == before["challenged"], "it was known to have ended"
    assert len(person.seen) == 1


async def test_a_token_that_is_taken_no_more_is_renewed_before_a_person_is_asked(
    servers: OAuthServers,
) -> None:
    """Servers forget tokens before their time."""
    person = AgreeingPerson()
    authorization = Authorization("notes", servers.url, authorizer=person)
    await ask(authorization, servers.url)
    servers.good_tokens.clear()

    await ask(authorization, servers.url)

    assert servers.asked["refresh_token"] == 1
    assert len(person.seen) == 1


async def test_a_person_is_asked_again_where_renewing_is_refused(servers: OAuthServers) -> None:
    """The refresh token has ended, too."""
    servers.takes_refresh = False
    person = AgreeingPerson()
    authorization = Authorization("notes", servers.url, authorizer=person)
    await ask(authorization, servers.url)
    servers.good_tokens.clear()

    await ask(authorization, servers.url)

    assert len(person.seen) == 2


async def test_what_another_process_has_been_granted_meanwhile_is_taken_over(
    servers: OAuthServers, tmp_path: Path
) -> None:
    """Renewing it once more would take the other's token from it."""
    person = AgreeingPerson()
    one, other = (
        Authorization("notes", servers.url, directory=tmp_path, authorizer=person) for _ in range(2)
    )
    await ask(one, servers.url)
    servers.good_tokens.clear()
    await ask(other, servers.url)

    [taken_over] = await ask(one, servers.url)

    assert servers.asked["refresh_token"] == 1
    assert taken_over.removeprefix("in with ") in servers.good_tokens
    assert len(person.seen) == 1


async def test_more_scope_is_asked_for_together_with_what_was_granted(
    servers: OAuthServers,
) -> None:
    """Stepping up must not lose what other requests need."""
    person = AgreeingPerson()
    authorization = Authorization("notes", servers.url, authorizer=person)
    await ask(authorization, servers.url)

    await ask(authorization, f"{servers.url}?wide")

    scopes = [parse_qs(urlsplit(address).query)["scope"] for address in person.seen]
    assert scopes == [["read"], ["read write"]]


async def test_a_server_that_is_never_content_cannot_ask_a_person_without_end(
    servers: OAuthServers,
) -> None:
    """So many times, and then it is an error."""
    servers.takes_refresh = False
    person = AgreeingPerson()
    authorization = Authorization("notes", servers.url, authorizer=person)
    for _ in range(AUTHORIZATIONS_LIMIT):
        servers.good_tokens.clear()
        await ask(authorization, servers.url)
    servers.good_tokens.clear()

    with pytest.raises(EnsembleError, match="which is the limit"):
        await ask(authorization, servers.url)
    assert len(person.seen) == AUTHORIZATIONS_LIMIT


async def test_where_nobody_can_be_asked_nothing_is_begun(servers: OAuthServers) -> None:
    """No client is registered for an authorization that cannot be."""
    with pytest.raises(EnsembleError, match="no user to ask") as caught:
        await ask(Authorization("notes", servers.url), servers.url)

    assert "browser" in caught.value.remedy
    assert set(servers.asked) == {"challenged"}


async def test_a_refusal_of_the_person_is_an_error_that_says_so(servers: OAuthServers) -> None:
    """The word is the authorization server's."""
    servers.refusal = "access_denied"

    with pytest.raises(EnsembleError, match="access_denied"):
        await ask(Authorization("notes", servers.url, authorizer=AgreeingPerson()), servers.url)


async def test_a_person_has_so_much_time_and_no_more(servers: OAuthServers) -> None:
    """The port is closed afterwards."""
    told: list[str] = []
    authorization = Authorization(
        "notes",
        servers.url,
        OAuthSettings(wait_seconds=0.05),
        authorizer=TellingAuthorizer(told.append),
    )

    with pytest.raises(EnsembleError, match=r"did not agree within 0\.05 seconds"):
        await ask(authorization, servers.url)

    [line] = told
    address = line.partition("open: ")[2]
    back = parse_qs(urlsplit(address).query)["redirect_uri"][0]
    with pytest.raises(OSError, match="Connect"):
        await asyncio.open_connection("127.0.0.1", urlsplit(back).port)
    assert not authorization.timeout.is_waiting


@attrs.define(eq=False)
class DistantPerson:
    """Agrees in the browser of another machine, and tells the address that it ended at."""

    async def open(self, server: str, address: str) -> str | None:
        async with (
            ClientSession() as session,
            session.get(address, allow_redirects=False) as response,
        ):
            return response.headers["Location"]


async def test_a_person_at_another_machine_tells_the_address(servers: OAuthServers) -> None:
    """A browser there cannot come back to a port here."""
    await ask(Authorization("n", servers.url, authorizer=DistantPerson()), servers.url)


@attrs.define(eq=False)
class BesetPerson(AgreeingPerson):
    """Agrees; but before, some page in the browser sends answers of its own."""

    statuses: list[int] = attrs.field(factory=list)

    async def open(self, server: str, address: str) -> str | None:
        back = parse_qs(urlsplit(address).query)["redirect_uri"][0]
        async with ClientSession() as session:
            for query in ("code=stolen", "code=stolen&state=guessed", "error=access_denied"):
                async with session.get(f"{back}?{query}") as response:
                    self.statuses.append(response.status)
            async with session.get(back.replace("/callback", "/favicon.ico")) as response:
                self.statuses.append(response.status)
        return await super().open(server, address)


async def test_answers_that_do_not_name_the_state_are_not_taken(servers: OAuthServers) -> None:
    """Whoever does not know it can neither let themselves in nor end the waiting."""
    person = BesetPerson()

    await ask(Authorization("notes", servers.url, authorizer=person), servers.url)

    assert person.statuses == [400, 400, 400, 404]
    assert servers.asked["authorized"] == 1


async def test_nothing_is_sent_where_others_could_read_along(servers: OAuthServers) -> None:
    """The server names an authorization server without encryption somewhere else."""
    servers.authorization_servers = ["http://accounts.example.org"]

    with pytest.raises(EnsembleError, match=r"http://accounts\.example\.org .* not encrypted"):
        await ask(Authorization("notes", servers.url, authorizer=AgreeingPerson()), servers.url)


async def test_what_an_authorization_server_says_about_itself_is_bounded(
    servers: OAuthServers,
) -> None:
    """It cannot fill the memory."""
    servers.padding = 2_000_000

    with pytest.raises(EnsembleError, match="more than 1,000,000 bytes"):
        await ask(Authorization("notes", servers.url, authorizer=AgreeingPerson()), servers.url)


async def test_a_refusal_without_end_is_not_read_to_its_end(servers: OAuthServers) -> None:
    """The server is a stranger until it has let us in, and after."""
    servers.challenge_padding = 2_000_000

    with pytest.raises(EnsembleError, match="more than 1,000,000 bytes"):
        await ask(Authorization("notes", servers.url, authorizer=AgreeingPerson()), servers.url)


async def test_what_the_server_itself_answers_is_not_bounded_here(servers: OAuthServers) -> None:
    """Neither the first answer after somebody was let in nor a later one."""
    servers.answer_padding = 2_000_000
    authorization = Authorization("n", servers.url, authorizer=AgreeingPerson())

    for _ in range(2):
        [text] = await ask(authorization, servers.url)
        assert len(text) > 2_000_000


async def test_an_authorization_server_that_is_another_is_refused(servers: OAuthServers) -> None:
    """Its description must name the issuer that it was looked for as."""
    servers.wrong_issuer = "https://evil.example.org"

    with pytest.raises(EnsembleError, match="issuer mismatch"):
        await ask(Authorization("notes", servers.url, authorizer=AgreeingPerson()), servers.url)


async def test_secrets_are_in_no_error_log_or_representation(
    servers: OAuthServers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even where the authorization server repeats them."""
    caplog.set_level(logging.DEBUG)
    person = AgreeingPerson()
    settings = OAuthSettings(client_id="known", client_secret="my-password")
    authorization = Authorization(
        "notes", servers.url, settings, directory=tmp_path, authorizer=person
    )
    await ask(authorization, servers.url)
    servers.good_tokens.clear()
    servers.token_error = {"error": "invalid_client", "error_description": "not my-password"}

    with pytest.raises(
        EnsembleError, match=r"Token exchange failed \(400\) \(invalid_client\)"
    ) as caught:
        await ask(authorization, servers.url)

    [kept] = tmp_path.iterdir()
    tokens = json.loads(kept.read_text())["tokens"]
    said = [str(caught.value), repr(caught.value.__cause__), repr(settings), repr(authorization)]
    said += [caplog.text, repr(authorization._storage)]
    for secret in ("my-password", tokens["access_token"], tokens["refresh_token"], "code-"):
        assert not any(secret in text for text in said), secret
    assert "my-password" not in kept.read_text()


async def test_a_client_with_a_password_lets_itself_in(servers: OAuthServers) -> None:
    """No person is asked, and nothing is registered."""
    settings = OAuthSettings(
        grant="client-credentials", client_id="robot", client_secret="pass", issuer=servers.origin
    )

    await ask(Authorization("notes", servers.url, settings), servers.url)

    assert servers.asked["client_credentials"] == 1
    assert servers.asked["registered"] == servers.asked["authorized"] == 0


async def test_the_port_of_the_registration_is_taken_again(
    servers: OAuthServers, tmp_path: Path
) -> None:
    """Authorization servers remember where a browser may be sent."""
    servers.takes_refresh = False
    person = AgreeingPerson()
    for _ in range(2):
        await ask(
            Authorization("notes", servers.url, directory=tmp_path, authorizer=person),
            servers.url,
        )
        servers.good_tokens.clear()

    first, second = (parse_qs(urlsplit(each).query)["redirect_uri"] for each in person.seen)
    assert first == second
    assert servers.asked["registered"] == 1


async def test_a_client_registers_itself_again_where_its_port_is_taken(
    servers: OAuthServers, tmp_path: Path
) -> None:
    """Another program listens there now."""
    servers.takes_refresh = False
    person = AgreeingPerson()
    first = Authorization("notes", servers.url, directory=tmp_path, authorizer=person)
    await ask(first, servers.url)
    servers.good_tokens.clear()
    back = parse_qs(urlsplit(person.seen[0]).query)["redirect_uri"][0]
    other = await asyncio.start_server(lambda *_: None, "127.0.0.1", urlsplit(back).port)

    async with other:
        await ask(
            Authorization("notes", servers.url, directory=tmp_path, authorizer=person),
            servers.url,
        )

    assert servers.asked["registered"] == 2


async def test_a_file_that_makes_no_sense_counts_as_none(
    servers: OAuthServers, tmp_path: Path
) -> None:
    """What it held can be had again; and others may not read it."""
    person = AgreeingPerson()
    await ask(Authorization("n", servers.url, directory=tmp_path, authorizer=person), servers.url)
    [file] = tmp_path.iterdir()
    file.write_text("{")
    file.chmod(0o644)

    await ask(Authorization("n", servers.url, directory=tmp_path, authorizer=person), servers.url)

    assert len(person.seen) == 2
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_what_one_server_was_granted_is_not_sent_to_another(
    servers: OAuthServers, tmp_path: Path
) -> None:
    """The name is the same, the address is not."""
    person = AgreeingPerson()
    await ask(Authorization("n", servers.url, directory=tmp_path, authorizer=person), servers.url)
    other = Authorization("n", f"{servers.url}?other", directory=tmp_path)

    flow = other.async_auth_flow(httpx2.Request("GET", f"{servers.url}?other"))
    request = await anext(flow)

    assert "Authorization" not in request.headers
    await flow.aclose()


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"client_di": "x"}, "did you mean 'client_id'"),
        ({"client_secret": "x"}, "belongs to a client_id"),
        ({"grant": "client-credentials"}, "client_credentials needs it"),
        ({"grant": "password"}, '"browser" or "client-credentials"'),
        ({"client_metadata_url": "http://example.org/me.json"}, "https address with a path"),
        ({"redirect_port": "80"}, "must be a port"),
    ],
)
def test_settings_that_do_not_hold_are_explained(table: dict[str, object], complaint: str) -> None:
    """With the place and the remedy."""
    with pytest.raises(ConfigurationError, match=complaint):
        read_table(OAuthSettings, table, "oauth")


def test_a_password_may_stand_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then no file of settings holds it."""
    monkeypatch.setenv("PASS", "word")
    file = tmp_path / "notes.toml"
    file.write_text(
        'url = "https://example.org/mcp"\n'
        '[oauth]\nclient_id = "me"\nclient_secret = {variable = "PASS"}\n'
    )

    [server] = read_servers(file)

    assert server.oauth is not None
    assert server.oauth.client_secret is not None
    assert server.oauth.client_secret.reveal() == "word"


def test_mistakes_in_a_file_of_servers_name_their_place(tmp_path: Path) -> None:
    """All of them at once."""
    file = tmp_path / "notes.toml"
    file.write_text(
        'url = "https://example.org/mcp"\n'
        '[oauth]\nclient_secret = {variable = "NO_SUCH"}\ngrant = "password"\n'
    )

    with pytest.raises(ConfigurationError) as caught:
        read_servers(file)

    places = {(each.place, each.line, each.path) for each in caught.value.findings}
    assert places == {(str(file), 3, "oauth.client_secret"), (str(file), 4, "oauth.grant")}


async def test_the_clock_of_a_limit_stands_still_while_a_person_is_waited_for() -> None:
    """A person is slower than what a server may take."""
    timeout = PausableTimeout()

    async with timeout.limit(0.2):
        with timeout.wait_for_person():
            await asyncio.sleep(0.3)

    with pytest.raises(TimeoutError):
        async with timeout.limit(0.01):
            await asyncio.sleep(60)
