"""That a real browser shows runs and conversations, answers for a person, and runs nothing else."""

from __future__ import annotations

import asyncio
import base64
import json
from itertools import pairwise
from pathlib import Path

import pytest

from support.daemons.run_daemons import serving
from support.flows.flow_tasks import compose_task
from support.gateways.authorizers import FriendAuthorizer
from support.runs.acting import invoke, say
from support.runs.hosted import Premises
from support.screens.browsers import Tab
from support.screens.talking import PIXEL, has
from vibe_llms import Conversation
from vibe_llms.daemons.agents.viewing import produce_view
from vibe_llms.daemons.arrivals import find_hosts
from vibe_llms.daemons.server import Server, ServerSettings
from vibe_llms.invocables import produce_invoker
from vibe_llms.messages.contents import FileContent, ImageContent

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

ATTACK = (
    "</script><img src=x onerror='document.title=1'><b onclick=x>bold</b>\u202e <script>x</script>"
    " \x1b[2J \u2066"
)
SEEN = ATTACK.replace("\u202e", "\ufffd").replace("\x1b", "\u241b").replace("\u2066", "\ufffd")
DONE = [say(f"Done. {ATTACK}")]


def pay(to: str, amount: int) -> str:
    """Pays somebody. <img src=x onerror='document.title=1'>"""
    return f"paid {amount} to {to}"


PAY = produce_invoker(pay, effect="once", needs_approval=True)


async def test_an_approval_is_given_and_the_run_is_seen_to_end(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path, PAY) as daemon:
        number = 12345678901234567890
        run_id = await daemon.start([invoke("pay", to=ATTACK, amount=number)], DONE)
        await tab.visit(f"{daemon.url}/page#/runs")
        await tab.wait_for(has("waiting", ".rows"))
        await tab.wait_for("document.querySelector('#waiting').textContent === '1'")
        await tab.click(f"#run-{run_id}")
        await tab.wait_for("document.querySelector('.approval .arguments')")
        shown = await tab.evaluate("document.querySelector('.approval .arguments').textContent")
        assert json.loads(shown) == {"to": ATTACK, "amount": number}
        assert "\u202e" not in shown  # what turns the direction of words is seen
        await tab.click(".approval button.main")
        await tab.wait_for(has("Allowed: pay.", ".approval .outcome"))
        await tab.wait_for(has("answered", ".summary"))
        await tab.wait_for(has(f"Done. {SEEN}", ".messages"))
        unseen = r"/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/"
        assert not await tab.evaluate(f"{unseen}.test(document.body.textContent + document.title)")
        await tab.wait_for(has("Call completed", ".log"))
        # all that was said by strangers is text
        marks = "document.querySelectorAll('main img, main script, main b[onclick]').length"
        assert await tab.evaluate(marks) == 0
        assert tab.complaints == []
        # a field for times has an icon of the browser
        own = (daemon.url, "data:image/svg+xml")
        assert [url for url in tab.requests if not url.startswith(own)] == []


DIALOGS = """(async () => {
  const { askUser } = await import('./elements.js');
  const dialog = document.getElementById('asking');
  const first = askUser('First', []);
  dialog.close();
  const second = askUser('Second', []);  // before the event of the first
  const answers = [await first];
  await new Promise((resolve) => setTimeout(resolve, 50));
  dialog.querySelector('form').requestSubmit();
  answers.push(await second);
  return answers;
})()"""


async def test_a_closed_dialog_does_not_cancel_the_next(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        await tab.visit(f"{daemon.url}/page/#/runs")
        await tab.wait_for("document.querySelector('h1')")
        assert await tab.evaluate(DIALOGS) == [None, {}]


async def test_who_is_slower_is_told_who_was_faster(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path, PAY) as daemon:
        run_id = await daemon.start([invoke("pay", to="Ann", amount=1)], DONE)
        await tab.visit(f"{daemon.url}/page/#/runs/{run_id}")
        await tab.wait_for("document.querySelector('.approval button.main')")
        _, told = await daemon.ask("GET", f"/runs/{run_id}/approvals")
        request = told["data"][0]["request"]
        path = f"/runs/{run_id}/approvals"
        said = {"digest": request["digest"], "decision": "deny", "reason": "No."}
        status, _ = await daemon.ask("POST", path, said)
        assert status == 200
        await tab.evaluate("document.querySelector('.approval button.main')?.click()")
        await tab.wait_for(has("Denied by another user: pay.", ".approval .outcome"))


async def test_where_nobody_performs_runs_it_is_said_how_one_goes_on(
    tab: Tab, tmp_path: Path
) -> None:
    """Of this machine's own store; a daemon goes on by itself, or when it is told to."""
    shown = "!document.querySelector('.advice').hidden"
    for name in ("view", "daemon"):
        (tmp_path / name).mkdir()
    async with Premises(tmp_path / "view", (PAY,)) as premises:
        run_id = await premises.start(premises.spec([invoke("pay", to="Ann", amount=1)], DONE))
        await premises.wait(run_id, "waiting")
        hosts = find_hosts("127.0.0.1", ()) or ()
        view = produce_view(premises.runs.application, premises.store, key="k", hosts=hosts)
        async with Server(view, ServerSettings(port=0)) as server:
            await tab.visit(f"{server.urls[0]}/page/#key=k")
            await tab.evaluate(f"location.hash = '#/runs/{run_id}'")
            await tab.wait_for("document.querySelector('.approval button.main')")
            assert not await tab.evaluate(shown)
            await tab.click("#stop")
            await tab.wait_for(f"{shown} && {has(f'vibe runs resume {run_id}', '.advice')}")
    async with serving(tmp_path / "daemon", PAY) as daemon:
        run_id = await daemon.start([invoke("pay", to="Ann", amount=1)], DONE)
        await tab.visit(f"{daemon.url}/page/#/runs/{run_id}")
        await tab.wait_for("document.querySelector('.approval button.main')")
        await tab.click("#stop")
        await tab.wait_for(has("stopped", ".summary"))
        assert not await tab.evaluate(shown)


async def test_a_conversation_is_found_named_forked_and_written_out(
    tab: Tab, tmp_path: Path
) -> None:
    (tmp_path / "none.toml").write_text('embedder = "scripted:words"\n')
    async with serving(tmp_path) as daemon:
        run_id = await daemon.start(DONE)
        await daemon.watch(run_id)
        downloads = {"behavior": "allow", "downloadPath": str(tmp_path)}
        await tab.call("Page.setDownloadBehavior", **downloads)
        await tab.visit(f"{daemon.url}/page/#/conversations")
        await tab.wait_for(has("Do it.", ".rows"))
        await tab.evaluate("document.querySelector('#query').value = 'bold'")
        await tab.click(".search button")
        await tab.wait_for("document.querySelector('.snippet mark')?.textContent === 'bold'")
        await tab.click("#meaning")
        await tab.click(".search button")
        await tab.wait_for("document.querySelector('.snippet') && !document.querySelector('mark')")
        await tab.click(".rows a")
        await tab.wait_for(has(SEEN, ".message.assistant"))
        await tab.click("#rename")
        await tab.wait_for("document.activeElement.id === 'asked-name'")
        name = ATTACK.replace("\x1b", "")  # which no name may have
        await tab.evaluate(f"document.activeElement.value = {json.dumps(name)}")
        await tab.press("Enter")
        seen = json.dumps(SEEN.replace("\u241b", ""))
        await tab.wait_for(f"document.querySelector('h1').textContent === {seen}")
        await tab.click("#export")
        await tab.wait_for(has(f"Saved as {run_id}.md", "#said"))
        await tab.click("#message-0 .fork")
        await tab.wait_for(f"!location.hash.endsWith('{run_id}') && {has('1 message')}")
        # a fork that has not run is none; nothing else was amiss, such as the policy
        assert {each for each in tab.complaints if "404" not in each} == set()


async def test_whoever_cannot_see_the_page_is_told_what_there_is(tab: Tab, tmp_path: Path) -> None:
    """What the keyboard reaches has a name, and what would be allowed is told with the button."""
    async with serving(tmp_path, PAY) as daemon:
        assert await survey_page(tab, f"{daemon.url}/page/#/runs", "no runs yet") == ["Runs"]
        run_id = await daemon.start([invoke("pay", to="Ann", amount=7)], DONE)
        await daemon.premises.wait(run_id, "waiting")
        _, fork = await daemon.ask("POST", f"/conversations/{run_id}/fork")
        for page, text in (
            ("runs", "waiting"),
            ("approvals", '"amount": 7'),
            (f"runs/{run_id}", "Approval of pay"),
            ("conversations", "Do it."),
            ("talk", "Start a conversation"),
            (f"talk/{run_id}", "Calls"),
            (f"conversations/{run_id}", "Calls"),
            (f"talk/{fork['id']}", "2 branches"),
            (f"compare/{run_id}/{fork['id']}", "No differences"),
        ):
            await survey_page(tab, f"{daemon.url}/page/#/{page}", text)
            await tab.look(width=320)  # a phone's, or four times as large
            wide = "document.documentElement.scrollWidth"
            assert await tab.evaluate(wide) <= 320, page
            await tab.look()
        await survey_page(tab, f"{daemon.url}/page/#/approvals", '"amount": 7')
        (told,) = (node for node in await tab.survey_tree() if node[:2] == ("button", "Allow"))
        assert "describedby" in told[2]


async def survey_page(tab: Tab, url: str, text: str) -> list[str]:
    """Holds what is told of a page against what each has to have; returns its first heading."""
    await tab.visit("about:blank")
    await tab.visit(url)
    await tab.wait_for(f"document.querySelector('main').innerText.includes({json.dumps(text)})")
    tree = await tab.survey_tree()
    roles = [role for role, _, _ in tree]
    for role in ("banner", "navigation", "main"):
        assert roles.count(role) == 1
    assert ("status", "polite") in [(role, more.get("live")) for role, _, more in tree]
    for role, name, more in tree:
        if more.get("focusable") and role not in ("main", "RootWebArea"):
            assert name, (role, more)
            assert role not in ("generic", "none", "paragraph"), name
    levels = [int(more["level"]) for role, _, more in tree if role == "heading"]
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels)), levels
    return [name for role, name, more in tree if role == "heading" and more["level"] == 1]


async def test_a_key_is_asked_for_and_the_keyboard_is_enough(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path, PAY, authorizer=FriendAuthorizer()) as daemon:
        ann = {"Authorization": "Bearer ann"}
        run_id = await daemon.start([invoke("pay", to="Ann", amount=1)], DONE, **ann)
        await tab.visit(f"{daemon.url}/page/#key=ann")
        await tab.wait_for("location.hash === '#/talk'")
        await tab.wait_for("document.activeElement.id === 'prompt'")
        await tab.evaluate("location.hash = '#/runs'")
        await tab.wait_for(has("waiting", ".rows"))
        await tab.wait_for("document.activeElement.tagName === 'H1'")
        for _ in range(12):
            if await tab.evaluate("document.activeElement.className") == "title":
                break
            await tab.press("Tab")
        await tab.press("Enter")
        await tab.wait_for(f"location.hash.endsWith('{run_id}')")
        await tab.wait_for("document.querySelector('.approval button.main')")
        for _ in range(12):
            if (await tab.evaluate("document.activeElement.textContent")) == "Allow":
                break
            await tab.press("Tab")
        await tab.press("Enter")
        await tab.wait_for(has("Allowed: pay.", ".outcome"))
        assert await tab.evaluate("document.activeElement.className") == "outcome"


async def test_a_flow_is_drawn_and_its_nodes_lead_to_what_was_said(
    tab: Tab, tmp_path: Path
) -> None:
    """What draws it reaches nothing of the page; the keyboard reaches what is drawn."""
    diagram = f"""START --> P0["{ATTACK.replace('"', "'")}"] --> C{{ok?}}
        C -->|good| END
        C -->|bad| P1[Mend]
        P1 --> P0
        click P0 href "https://example.org/" "a link"
    """
    task = compose_task(diagram, "good {{said}}", "mend", variables={"said": ATTACK})
    async with serving(tmp_path) as daemon:
        _, run = await daemon.ask("POST", "/runs", {"task": task})
        await daemon.watch(run["id"])
        await tab.visit(f"{daemon.url}/page/#/runs/{run['id']}")
        await tab.wait_for(has("not reached", ".nodes"))
        await tab.wait_for("document.querySelector('.diagram').style.height")  # as what is drawn
        place = "document.querySelector('.diagram').contentDocument"
        assert await tab.evaluate(place) is None
        await tab.evaluate("document.querySelector('.verbs a').focus()")
        for _ in range(12):
            await tab.press("Tab")
            if await tab.evaluate("document.activeElement.className") == "diagram":
                await tab.press("Enter")
            if "step=" in await tab.evaluate("location.hash"):
                break
        await tab.wait_for(has("good", ".message.assistant"))
        assert tab.complaints == []
        assert all(url.startswith((daemon.url, "blob:", "about:")) for url in tab.requests)


async def test_a_flow_that_missed_its_goal_says_so_and_why(tab: Tab, tmp_path: Path) -> None:
    """With its last words, the conditions, and the names that are written on its nodes."""
    condition = {"evaluation_type": "CONTAINS", "expected_value": "42", "description": "Says 42"}
    diagram = "START --> L([Again x2])\nL --> P0[Draft it] --> L\nL --> END"
    task = compose_task(diagram, f"six times nine {ATTACK}", conditions=[condition])
    async with serving(tmp_path) as daemon:
        _, run = await daemon.ask("POST", "/runs", {"task": task})
        await daemon.watch(run["id"])
        _, told = await daemon.ask("GET", f"/runs/{run['id']}")
        assert (told["label"], told["tone"], told["goal_met"]) == ("goal not met", "failed", False)

        await tab.visit(f"{daemon.url}/page/#/runs")
        await tab.wait_for(has("goal not met", ".rows .mark.failed"))
        facts = await tab.evaluate("document.querySelector('.rows li').innerText")
        assert "7 visits" in facts  # START, three times the loop, twice P0, END
        assert "2 answers" in facts
        assert "price" not in facts
        await tab.click(f"#run-{run['id']}")
        await tab.wait_for(has("goal not met", ".summary .mark.failed"))
        await tab.wait_for(has(f"six times nine {ATTACK.replace(chr(0x202E), '')[:20]}", ".final"))
        await tab.wait_for(has("Says 42", ".verdicts"))
        await tab.wait_for(has("not met", ".verdicts .mark.failed"))
        await tab.wait_for(has("does not contain '42'", ".verdicts"))
        await tab.wait_for(has("Draft it (P0)", ".log"))
        await tab.wait_for(has("Flow ended goal not met", ".log"))
        assert tab.complaints == []


async def test_titles_of_runs_are_seen_however_wide_the_window_is(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        task = compose_task("START --> P0 --> END", "x", variables={"word": "y"})
        task["goal"]["description"] = "Research and summarize a topic " * 3
        _, run = await daemon.ask("POST", "/runs", {"task": task})
        await daemon.watch(run["id"])
        await tab.visit(f"{daemon.url}/page/#/runs")
        await tab.wait_for(has("goal met", ".rows"))
        title = "document.querySelector('.rows .title').getBoundingClientRect().width"
        for width in (320, 480, 640, 641, 700, 768, 800, 900, 959, 961, 1100, 1400):
            await tab.look(width=width)
            assert await tab.evaluate(title) >= min(190, width / 2), width
            wide = "document.documentElement.scrollWidth"
            assert await tab.evaluate(wide) <= width
        await tab.look()


async def test_a_picture_is_seen_and_a_file_can_be_kept(tab: Tab, tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        conversation = Conversation()
        file = FileContent(data=b"<script>", mime_type="text/html", name="x.html")
        picture = ImageContent(
            data=base64.b64decode(PIXEL), mime_type="image/png", name="pixel.png"
        )
        elsewhere = ImageContent(url="https://example.org/x.png", mime_type="image/png")
        conversation.add_user_message([picture, file, elsewhere])
        conversation.save(daemon.premises.store)
        await tab.visit(f"{daemon.url}/page/#/conversations/{conversation.id}")
        await tab.wait_for("document.querySelector('.media img')?.naturalWidth === 1")
        downloads = {"behavior": "allow", "downloadPath": str(tmp_path)}
        await tab.call("Page.setDownloadBehavior", **downloads)
        await tab.click(".media:not(.picture) button")
        async with asyncio.timeout(60):
            while not (tmp_path / "x.html").exists():  # noqa: ASYNC110  # the browser tells nobody
                await asyncio.sleep(0.02)
        assert has("https://example.org/x.png")
        assert not [each for each in tab.requests if "example.org" in each]


async def test_what_is_not_there_is_a_page_with_a_way_back(tab: Tab, tmp_path: Path) -> None:
    """Whatever the address says; and on a phone no word of the menu is broken."""
    async with serving(tmp_path) as daemon:
        await tab.look(width=360, height=700)
        for number, place in enumerate(("runs/nobody", "runs/%E0%A4%A", "conversations/no", "no")):
            await tab.visit(f"{daemon.url}/page/?{number}#/{place}")
            await tab.wait_for("document.querySelector('main h1')?.textContent")
            assert "not found" in str(await tab.evaluate("document.title")).lower()
            assert await tab.evaluate("document.querySelector('main button')") is None
            assert await tab.evaluate("document.querySelector('main a').hash") == "#/runs"
        await tab.visit(f"{daemon.url}/page/?key#key=%E0%A4%A")
        await tab.wait_for("document.querySelector('#prompt')")
        heights = "Array.from(document.querySelectorAll('nav a'), (each) => each.offsetHeight)"
        assert max(await tab.evaluate(heights)) < 50


async def test_runs_that_were_left_keep_no_connection(tab: Tab, tmp_path: Path) -> None:
    """A browser has six of them, and may keep what was left for whoever goes back."""
    async with serving(tmp_path) as daemon:
        run_id = await daemon.start(DONE)
        for number in range(9):
            await tab.visit(f"{daemon.url}/page/?{number}#/runs/{run_id}")
            await tab.wait_for("document.querySelector('.log li')")


async def test_a_run_that_nobody_sees_keeps_no_connection(tab: Tab, tmp_path: Path) -> None:
    """Of many tabs that are open at once; it goes on where it was when it is seen again."""
    seen = "document.querySelectorAll('.log li').length"

    async def turn(is_hidden: bool) -> None:
        word = json.dumps(is_hidden)
        await tab.evaluate(
            f"Object.defineProperty(document, 'hidden', {{ value: {word}, configurable: true }});"
            " document.dispatchEvent(new Event('visibilitychange'))"
        )

    async with serving(tmp_path, watchers=1) as daemon:
        run_id = await daemon.start(DONE)
        before = len(await daemon.watch(run_id))
        await tab.visit(f"{daemon.url}/page/#/runs/{run_id}")
        await tab.wait_for(f"{seen} === {before}")
        url = f"{daemon.url}/runs/{run_id}/events?follow=false"

        async def ask_status() -> int:
            async with daemon.session.get(url) as answer:
                return answer.status

        assert await ask_status() == 429  # the page has the only stream there is
        await turn(is_hidden=True)
        while await ask_status() == 429:
            pass
        status, _ = await daemon.ask("POST", f"/runs/{run_id}/messages", {"content": "And?"})
        assert status < 300
        behind = len(await daemon.watch(run_id))
        assert behind > before
        assert await tab.evaluate(seen) == before

        await turn(is_hidden=False)
        await tab.wait_for(f"{seen} >= {behind}")
