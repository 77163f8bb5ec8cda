"""Client for the official conformance suite, which uses only public names.

The suite starts it with the address of a server, and passes the scenario and the revision in the
environment::

    conformance client --scenario tools_call \\
        --command "python tests/support/mcp/mcp_conformance_client.py"

The tests call :func:`converse` in their own process.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
from aiohttp import ClientSession

from vibe_llms.invocables import InvocationContext, Registry, perform
from vibe_llms.invocables.mcp import McpEnsemble, McpServer, produce_mcp_ensemble
from vibe_llms.invocables.mcp.elicitation import ElicitationAnswer, Question
from vibe_llms.invocables.mcp.oauth.settings import GrantType, OAuthSettings
from vibe_llms.invocables.outcomes import Outcome

CLIENT_DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The client id that the suite requires of a client with a metadata document."""


@attrs.frozen(kw_only=True)
class Task:
    """The scenario of one start."""

    scenario: str
    url: str
    revision: str
    context: dict[str, Any]


@attrs.frozen
class SilentPerson:
    """Elicitor that accepts every form with its defaults."""

    async def elicit(self, question: Question) -> ElicitationAnswer:
        return ElicitationAnswer()


@attrs.frozen
class AgreeingPerson:
    """Authorizer that opens an address as a browser does, with all redirects."""

    async def open(self, server: str, address: str) -> str | None:
        async with ClientSession() as session, session.get(address) as response:
            await response.read()
        return None


async def find_issuer(url: str) -> str:
    """Return the issuer of the credentials, which a user would know."""
    address = url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
    async with ClientSession() as session, session.get(address) as response:
        issuer: str = (await response.json())["authorization_servers"][0]
    return issuer


def produce_ensemble(task: Task) -> McpEnsemble:
    """Create the ensemble for the suite's server."""
    context = task.context
    grant = (
        GrantType.CLIENT_CREDENTIALS if "client-credentials" in task.scenario else GrantType.BROWSER
    )
    oauth = OAuthSettings(
        grant=grant,
        client_id=context.get("client_id", ""),
        client_secret=context.get("client_secret"),
        client_metadata_url=CLIENT_DOCUMENT,
        issuer=context.get("issuer", ""),
    )
    is_guarded = task.scenario.startswith("auth/")
    server = McpServer(
        name="judge",
        url=task.url,
        protocol=task.revision,
        oauth=oauth if is_guarded else None,
        needs_approval=False,
        restarts=0,
    )
    return produce_mcp_ensemble(
        server,
        elicitor=SilentPerson(),
        authorizer=AgreeingPerson() if is_guarded else None,
    )


async def call_all(registry: Registry, ensemble: McpEnsemble, task: Task) -> None:
    """Make the calls that the suite names, or call every tool with its required arguments."""
    calls = [(each["name"], each["arguments"]) for each in task.context.get("toolCalls", ())]
    if not calls:
        calls = [(tool.name, _fill_in(tool.schema)) for tool in ensemble.tools]
    for name, arguments in calls:
        if registry.access(name).check(arguments):
            # The suite passes a null that the tool's schema forbids, and checks the request.
            await ensemble.request(
                functools.partial(_call_unchecked, name, arguments), f"call {name}", seconds=20
            )
        else:
            await call(registry, name, arguments)


async def _call_unchecked(name: str, arguments: dict[str, Any], client: Any) -> None:
    await client.call_tool(name, arguments)


async def echo_schema(registry: Registry, ensemble: McpEnsemble, task: Task) -> None:
    """Pass the schema of one tool, as we read it, to another tool, which checks it."""
    [echo] = [tool for tool in ensemble.tools if "schema" in tool.schema["properties"]]
    [other] = [tool for tool in ensemble.tools if tool is not echo]
    await call(registry, echo.name, {"schema": other.schema})


async def call(registry: Registry, name: str, arguments: dict[str, Any]) -> Outcome:
    """Call one tool as a model would."""
    outcome = await perform(registry.access(name), arguments, InvocationContext())
    print(name, "error:" if outcome.is_error else "result:", outcome.text, file=sys.stderr)
    return outcome


def _fill_in(schema: Any) -> dict[str, Any]:
    values = {"string": "text", "integer": 1, "number": 1.5, "boolean": True}
    properties = schema.get("properties", {})
    return {name: values[properties[name]["type"]] for name in schema.get("required", ())}


async def read_all(registry: Registry, ensemble: McpEnsemble, task: Task) -> None:
    """Call all tools, reads all resources, and gets all prompts."""
    await call_all(registry, ensemble, task)
    for entry in await ensemble.shelf.list_resources():
        await ensemble.shelf.read_resource(entry.uri)
    for prompt in await ensemble.shelf.list_prompts():
        await ensemble.shelf.get_prompt(prompt.name)


async def add(registry: Registry, ensemble: McpEnsemble, task: Task) -> None:
    """Call the tool that adds two numbers."""
    outcome = await call(registry, "add_numbers", {"a": 5, "b": 3})
    assert "8" in outcome.text, outcome


async def just_connect(registry: Registry, ensemble: McpEnsemble, task: Task) -> None:
    """Do nothing more: connecting lists the tools."""


Action = Callable[[Registry, McpEnsemble, Task], Awaitable[None]]
ACTIONS: dict[str, Action] = {
    "initialize": just_connect,
    "tools_call": add,
    "request-metadata": just_connect,
    "http-standard-headers": read_all,
    "json-schema-ref-no-deref": just_connect,
    "json-schema-2020-12-preservation": echo_schema,
}


async def converse(task: Task) -> None:
    """Perform one scenario with the suite's server; raise errors."""
    if "client-credentials" in task.scenario:
        task = attrs.evolve(task, context={**task.context, "issuer": await find_issuer(task.url)})
    ensemble = produce_ensemble(task)
    action = ACTIONS.get(task.scenario, call_all)
    async with Registry([ensemble]) as registry:
        await action(registry, ensemble, task)


def read_task(url: str, environment: dict[str, str]) -> Task:
    """Return the task from the arguments and environment that the suite sets."""
    return Task(
        scenario=environment["MCP_CONFORMANCE_SCENARIO"],
        url=url,
        revision=environment.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "auto"),
        context=json.loads(environment.get("MCP_CONFORMANCE_CONTEXT", "{}")),
    )


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    asyncio.run(converse(read_task(sys.argv[-1], dict(os.environ))))
