"""What clients of a server of tools may hold, whose it is, and that it ends with them."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trustme

from support.daemons.tool_servers import (
    ERAS,
    FixedApplication,
    ScriptedUser,
    connect_client,
    connect_sessionless,
    produce_application,
    read_text,
    serve_tools,
)
from support.gateways.authorizers import CertificateAuthorizer
from support.gateways.gateways import wait_until
from vibe_llms.daemons.server.serving import Server
from vibe_llms.daemons.server.settings import ServerSettings
from vibe_llms.daemons.tools.making import produce_service
from vibe_llms.daemons.tools.settings import SessionLimits, ToolsServer, ToolsSettings
from vibe_llms.exceptions import AccessError, ProviderFault
from vibe_llms.invocables import (
    FunctionsEnsemble,
    InvocationContext,
    invocable,
    produce_prompt,
    produce_resource,
)
from vibe_llms.invocables.questions import compose_form
from vibe_llms.plugins.specification.daemons import Arrival

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ELICITATION = {"elicitation": {"form": {}}}
ANSWER = {"name": {"action": "accept", "content": {"name": "Ada"}}}
SERVER = Path(__file__).parents[1] / "support" / "mcp" / "passed_server.py"


class Greeter:
    """Asks for a name; takes down what has begun and ended of it."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def offer(self, folder: Path, **more: Any) -> FixedApplication:
        """Makes an application that offers it."""

        @invocable(effect="pure")
        async def greet(context: InvocationContext) -> str:
            """Greets."""
            self.told.append("begun")
            try:
                answer = (await context.ask({"name": compose_form("Who?", NAME)}))["name"]
            except BaseException as error:
                self.told.append(str(error) or "cancelled")
                raise
            content: Any = answer["content"]
            return f"Hello {content['name']}"

        @invocable(effect="pure")
        async def hang() -> str:
            """Never ends."""
            self.told.append("begun")
            try:
                await asyncio.Event().wait()
            finally:
                self.told.append("ended")
            return ""

        return FixedApplication(folder, FunctionsEnsemble("greeter", [greet, hang], **more))


async def test_a_call_waits_once_for_its_client(tmp_path: Path) -> None:
    """An answer is taken once; more calls than may wait do not; none outlives the server."""
    greeter = Greeter()
    options = {"sessions": SessionLimits(waiting=1)}
    async with (
        serve_tools(greeter.offer(tmp_path), **options) as address,
        connect_sessionless(address, **ELICITATION) as client,
    ):
        first = (await client.ask("tools/call", name="greet"))["result"]
        assert first["inputRequests"]["name"]["params"]["message"] == "Who?"
        too_many = (await client.ask("tools/call", name="greet"))["error"]
        assert "sessions.waiting = 1" in too_many["message"]
        assert greeter.told == ["begun", "begun", "cancelled"]

        again = {"inputResponses": ANSWER, "requestState": first["requestState"]}
        done = (await client.ask("tools/call", name="greet", **again))["result"]
        assert done["content"][0]["text"] == "Hello Ada"
        spent = (await client.ask("tools/call", name="greet", **again))["error"]
        assert spent["code"] == -32602

        fresh = (await client.ask("tools/call", name="greet"))["result"]
        assert fresh["resultType"] == "input_required"
    assert greeter.told[3:] == ["begun", "cancelled"]


async def test_what_has_allowed_a_call_answers_no_question_of_the_call(tmp_path: Path) -> None:
    """Though it has the same name, as that of a server behind which asks for an approval, too."""

    @invocable(effect="once", needs_approval=True)
    async def wipe(context: InvocationContext) -> str:
        """Wipes."""
        answer = (await context.ask({"approval": compose_form("Really?", NAME)}))["approval"]
        return str(answer["action"])

    yes = {"approval": {"action": "accept", "content": {"allow": True}}}
    no = {"approval": {"action": "decline"}}
    application = FixedApplication(tmp_path, FunctionsEnsemble("wiping", [wipe]))
    async with (
        serve_tools(application) as address,
        connect_sessionless(address, **ELICITATION) as client,
    ):
        first = (await client.ask("tools/call", name="wipe"))["result"]
        again = {"inputResponses": yes, "requestState": first["requestState"]}
        second = (await client.ask("tools/call", name="wipe", **again))["result"]
        assert second["inputRequests"]["approval"]["params"]["message"] == "Really?"
        again = {"inputResponses": no, "requestState": second["requestState"]}
        done = (await client.ask("tools/call", name="wipe", **again))["result"]
        assert done["content"][0]["text"] == "decline"


async def test_a_call_that_nobody_comes_back_to_ends(tmp_path: Path) -> None:
    """The function is told, and another call has its place."""
    greeter = Greeter()
    options = {"sessions": SessionLimits(waiting=1, wait_seconds=0.05)}
    async with (
        serve_tools(greeter.offer(tmp_path), **options) as address,
        connect_sessionless(address, **ELICITATION) as client,
    ):
        await client.ask("tools/call", name="greet")
        await wait_until(lambda: len(greeter.told) == 2)
        assert greeter.told[1] == "The client did not answer within wait_seconds = 0.05."
        async with asyncio.timeout(60):
            while "result" not in await client.ask("tools/call", name="greet"):
                pass


async def test_what_is_answered_in_part_is_asked_for_the_rest(tmp_path: Path) -> None:
    """And only for that; what nobody asked for is nothing."""

    @invocable(effect="pure")
    async def ask(context: InvocationContext) -> str:
        """Asks two things."""
        questions = {name: compose_form(f"{name}?", NAME) for name in ("a", "b")}
        return str(sorted(await context.ask(questions)))

    one = {"action": "decline"}
    application = FixedApplication(tmp_path, FunctionsEnsemble("asking", [ask]))
    async with (
        serve_tools(application) as address,
        connect_sessionless(address, **ELICITATION) as client,
    ):
        both = (await client.ask("tools/call", name="ask"))["result"]
        assert set(both["inputRequests"]) == {"a", "b"}
        answers = {"inputResponses": {"a": one, "z": one}, "requestState": both["requestState"]}
        left = (await client.ask("tools/call", name="ask", **answers))["result"]
        assert set(left["inputRequests"]) == {"b"}
        answers = {"inputResponses": {"b": one}, "requestState": left["requestState"]}
        done = (await client.ask("tools/call", name="ask", **answers))["result"]
        assert done["content"][0]["text"] == "['a', 'b']"


@pytest.mark.parametrize("era", ERAS)
async def test_what_cannot_be_asked_is_said(tmp_path: Path, era: str) -> None:
    """By a client that cannot ask, or where a client that comes again comes to another process."""
    greeter = Greeter()
    settings = ToolsServer(workers=2)
    async with (
        serve_tools(greeter.offer(tmp_path), server=settings) as address,
        connect_client(address, era, elicitation_callback=ScriptedUser(name="Ada")) as client,
    ):
        refused = await client.call_tool("greet")
        assert refused.is_error
        assert "several processes" in read_text(refused)


class KeyAuthorizer(CertificateAuthorizer):
    """Lets in whoever has a key, and calls them by it."""

    async def authorize(self, arrival: Arrival) -> CertificateAuthorizer.Grant:
        if not arrival.credential:
            raise AccessError(fault=ProviderFault.AUTHENTICATION, detail="Who are you?")
        return self.Grant(self, arrival.credential)


async def test_what_waits_for_one_client_is_not_anothers(tmp_path: Path) -> None:
    """Neither its call nor its session; and without a key there is nothing."""
    me, you = {"authorization": "Bearer me"}, {"authorization": "Bearer you"}
    async with (
        serve_tools(Greeter().offer(tmp_path), authorizer=KeyAuthorizer()) as address,
        connect_sessionless(address, **ELICITATION) as client,
        httpx2.AsyncClient() as legacy,
    ):
        assert (await client.post("tools/call", name="greet")).status_code == 401
        mine = (await client.ask("tools/call", me, name="greet"))["result"]
        brought = {"inputResponses": ANSWER, "requestState": mine["requestState"]}
        stolen = await client.ask("tools/call", you, name="greet", **brought)
        assert stolen["error"]["code"] == -32602
        done = await client.ask("tools/call", me, name="greet", **brought)
        assert done["result"]["content"][0]["text"] == "Hello Ada"

        session = await open_session(legacy, address, me)
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        for who, status in ((you, 404), (me, 200)):
            head = {**ACCEPT, **who, "mcp-session-id": session}
            assert (await legacy.post(address, json=ping, headers=head)).status_code == status


ACCEPT = {"accept": "application/json, text/event-stream"}


async def open_session(client: httpx2.AsyncClient, address: str, headers: Any = None) -> str:
    """Opens a session; returns its id, or nothing and the status."""
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "a stranger", "version": "1"},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    answer = await client.post(address, json=body, headers={**ACCEPT, **(headers or {})})
    return answer.headers.get("mcp-session-id") or str(answer.status_code)


async def test_sessions_are_bounded_and_end_when_nothing_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more is refused, until another has ended."""
    loop, ahead = asyncio.get_running_loop(), 0.0
    read = loop.time
    monkeypatch.setattr(loop, "time", lambda: read() + ahead)
    options = {"sessions": SessionLimits(sessions=1, idle_seconds=300)}
    async with (
        serve_tools(Greeter().offer(tmp_path), **options) as address,
        httpx2.AsyncClient() as client,
    ):
        assert len(await open_session(client, address)) == 32
        assert await open_session(client, address) == "503"
        ahead = 300.0
        async with asyncio.timeout(60):
            while len(session := await open_session(client, address)) != 32:
                pass
        head = {**ACCEPT, "mcp-session-id": session}
        assert (await client.delete(address, headers=head)).status_code == 200
        assert len(await open_session(client, address)) == 32


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_ends_with_its_client(tmp_path: Path, era: str) -> None:
    """Cancelled by a word, or by going away."""
    greeter = Greeter()
    async with serve_tools(greeter.offer(tmp_path)) as address:
        with suppress(asyncio.CancelledError):
            async with connect_client(address, era) as client:
                calling = asyncio.ensure_future(client.call_tool("hang"))
                await wait_until(lambda: greeter.told == ["begun"])
                calling.cancel()
                await asyncio.wait((calling,))
                await wait_until(lambda: greeter.told == ["begun", "ended"])
        async with httpx2.AsyncClient(timeout=60) as gone:
            call = {"name": "hang", "arguments": {}}
            if era == "legacy":
                session = await open_session(gone, address)
                head = {**ACCEPT, "mcp-session-id": session}
                body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}
                posting = asyncio.ensure_future(gone.post(address, json=body, headers=head))
            else:
                async with connect_sessionless(address) as modern:
                    posting = asyncio.ensure_future(modern.post("tools/call", **call))
                    await wait_until(lambda: greeter.told[2:] == ["begun"])
                    posting.cancel()
                    await asyncio.wait((posting,))
            await wait_until(lambda: greeter.told[2:3] == ["begun"])
            if era == "legacy":  # a session outlives a connection, and ends by a word of its own
                await gone.delete(address, headers=head)
                posting.cancel()
                await asyncio.wait((posting,))
            await wait_until(lambda: greeter.told[2:] == ["begun", "ended"])


async def test_what_is_longer_than_its_limit_says_so(tmp_path: Path) -> None:
    """Tools are cut and say it, what promised a structure is an error; resources are not cut."""

    @invocable(effect="pure", output_limit_characters=100)
    def say_much() -> str:
        """Says much."""
        return "x" * 101

    @invocable(effect="pure", output_limit_characters=100, output_schema={"type": "object"})
    def weigh_much() -> dict[str, str]:
        """Weighs much."""
        return {"grams": "9" * 101}

    def read() -> str:
        """Much to read."""
        return "x" * 101

    long = produce_resource("long:", read, output_limit_characters=100)
    prompt = produce_prompt(read, output_limit_characters=100)
    ensemble = FunctionsEnsemble("long", [say_much, weigh_much], resources=[long], prompts=[prompt])
    async with (
        serve_tools(FixedApplication(tmp_path, ensemble)) as address,
        connect_sessionless(address) as client,
    ):
        said = [await client.ask("tools/call", name="say_much") for _ in range(2)]
        assert said[0] == said[1]
        text = said[0]["result"]["content"][-1]["text"]
        assert text.endswith("of 101 characters; the limit is 100]")
        weighed = (await client.ask("tools/call", name="weigh_much"))["result"]
        assert weighed["isError"]
        assert "structuredContent" not in weighed
        for method, named in (
            ("resources/read", {"uri": "long:"}),
            ("prompts/get", {"name": "read"}),
        ):
            refused = (await client.ask(method, **named))["error"]
            assert "output_limit_characters = 100" in refused["message"]


@pytest.mark.slow
async def test_a_question_is_not_asked_of_another_client(tmp_path: Path) -> None:
    """Of a server whose questions do not say which call they are about."""
    text = "\n".join(
        [
            "[mcp.behind]",
            f"command = {json.dumps(sys.executable)}",
            f"arguments = [{json.dumps(str(SERVER))}]",
            'protocol = "2025-11-25"',
            "connect_seconds = 55",
        ]
    )
    mine, yours = ScriptedUser(name="Sylt"), ScriptedUser(name="Rum")
    application = produce_application(tmp_path, text)
    is_asked = asyncio.Event()
    go_on = asyncio.Event()

    async def answer_late(context: Any, params: Any) -> Any:
        is_asked.set()
        await go_on.wait()
        return await mine(context, params)

    async with (
        serve_tools(application, mcp=("behind",), allowed=("all",)) as address,
        connect_client(address, "legacy", elicitation_callback=answer_late) as me,
        connect_client(address, "legacy", elicitation_callback=yours) as you,
    ):
        asking = asyncio.ensure_future(me.call_tool("ask_person", {"message": "mine"}))
        await is_asked.wait()
        refused = await you.call_tool("ask_person", {"message": "yours"})
        go_on.set()
        assert read_text(await asking) == "Sylt hill 10"
        assert refused.is_error
        assert (mine.messages, yours.messages) == (["mine"], [])
        assert read_text(await you.call_tool("ask_person", {"message": "now"})) == "Rum hill 10"


@pytest.mark.slow
async def test_over_http_each_is_asked_about_their_own_call(tmp_path: Path) -> None:
    """The question comes with the answer to the call: nobody keeps others from theirs."""
    mine, yours = ScriptedUser(name="Ada"), ScriptedUser(name="Bob")
    is_asked, go_on = asyncio.Event(), asyncio.Event()

    async def answer_late(context: Any, params: Any) -> Any:
        is_asked.set()
        await go_on.wait()
        return await mine(context, params)

    (tmp_path / "front").mkdir()
    async with serve_tools(Greeter().offer(tmp_path), allowed=("all",)) as behind:
        text = f'[mcp.behind]\nurl = "{behind}"\nprotocol = "2025-11-25"\n'
        front = produce_application(tmp_path / "front", text)
        async with (
            serve_tools(front, mcp=("behind",), allowed=("all",)) as address,
            connect_client(address, "legacy", elicitation_callback=answer_late) as me,
            connect_client(address, "legacy", elicitation_callback=yours) as you,
        ):
            asking = asyncio.ensure_future(me.call_tool("greet", {}))
            await is_asked.wait()
            assert read_text(await you.call_tool("greet", {})) == "Hello Bob"
            go_on.set()
            assert read_text(await asking) == "Hello Ada"


async def test_nobody_takes_all_that_there_is(tmp_path: Path) -> None:
    """Of calls that wait, sessions and streams one has no more than is left for the others."""
    me, you = {"authorization": "Bearer me"}, {"authorization": "Bearer you"}
    sessions = SessionLimits(waiting=4, sessions=4, subscriptions=4)
    async with (
        serve_tools(
            Greeter().offer(tmp_path), authorizer=KeyAuthorizer(), sessions=sessions
        ) as address,
        connect_sessionless(address, **ELICITATION) as client,
        httpx2.AsyncClient() as legacy,
    ):

        async def wait(who: Any) -> str:
            answer = await client.ask("tools/call", who, name="greet")
            return str(answer.get("error", {}).get("message", ""))

        assert [await wait(me), await wait(me)] == ["", ""]
        refused = await wait(me)
        assert "this client has 2; the rest is reserved" in refused
        assert "sessions.waiting = 4" in refused
        assert await wait(you) == ""
        assert "for other clients" in await wait(you)

        opened = [await open_session(legacy, address, who) for who in (me, me, me, you, you)]
        assert [each if len(each) == 3 else "" for each in opened] == ["", "", "503", "", "503"]


async def test_mutual_tls_and_an_authorizer_guard_tools(tmp_path: Path) -> None:
    """Who has a certificate comes in, if the authorizer knows its subject."""
    authority = trustme.CA()
    authorities, served = tmp_path / "authorities.pem", tmp_path / "server.pem"
    authority.cert_pem.write_to_path(authorities)
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(served)
    porter = CertificateAuthorizer("CN=me,O=trustme v1.2.1,OU=Testing cert #x")
    service = produce_service(Greeter().offer(tmp_path), ToolsSettings(), authorizer=porter)
    settings = ServerSettings(port=0, certificate=served, client_authorities=authorities)
    async with Server(service, settings) as server:
        port = server.urls[0].rpartition(":")[2]
        address = f"https://localhost:{port}/mcp"
        bare = ssl.create_default_context()
        authority.configure_trust(bare)
        shown = ssl.create_default_context()
        authority.configure_trust(shown)
        authority.issue_cert("me@h", common_name="me").configure_cert(shown)
        async with httpx2.AsyncClient(verify=bare) as client:
            with pytest.raises(httpx2.HTTPError):
                await client.post(address, json={})
        async with httpx2.AsyncClient(verify=shown) as client:
            assert (await client.post(address, json={})).status_code == 401
            porter.subjects = tuple(porter.seen)
            assert len(await open_session(client, address)) == 32
    assert porter.seen[0].startswith("CN=me,")
