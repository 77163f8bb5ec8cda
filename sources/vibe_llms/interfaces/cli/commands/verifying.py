"""``vibe verify`` and ``vibe gc``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vibe_llms.interfaces.cli.access import load_configuration, open_store, resolve_identity
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.interfaces.cli.options import CONVERSATION, command, json_option, yes_option
from vibe_llms.interfaces.cli.output import note, write, write_json

if TYPE_CHECKING:
    from vibe_llms.conversations.proof import Collection
    from vibe_llms.conversations.stores.interfaces import ConversationStore
    from vibe_llms.exceptions import Finding
    from vibe_llms.foundation.json_types import JsonValue


@command("verify")
@click.argument("identities", metavar="[ID]...", nargs=-1, type=CONVERSATION)
@json_option
def verify(identities: tuple[str, ...], as_json: bool) -> int:
    """Verify every line and content hash of all conversations, or of those named.

    Also verifies the events of their runs, and that no file is truncated.

    Changes nothing. The exit code is 7 if anything is damaged.
    """
    from vibe_llms.conversations.proof import verify as verify_conversations

    store = open_store()
    chosen = [resolve_identity(store, prefix) for prefix in identities] or None
    proof = verify_conversations(store, chosen)
    events, findings = _verify_logs(store, chosen)
    findings = [*proof.findings, *findings]
    if as_json:
        write_json(
            {
                "conversations": proof.conversations,
                "canisters": proof.canisters,
                "contents": proof.contents,
                "events": events,
                "findings": [str(finding) for finding in findings],
                "remarks": [str(remark) for remark in proof.remarks],
            }
        )
    else:
        for finding in findings:
            write(str(finding))
        for remark in proof.remarks:
            note(str(remark))
        note(
            f"Verified: {proof.conversations} conversations, {proof.canisters} canisters, "
            f"{proof.contents} contents, {events} events. Findings: {len(findings)}."
        )
    return ExitCode.STORE if findings else ExitCode.SUCCESS


def _verify_logs(
    store: ConversationStore, identities: list[str] | None
) -> tuple[int, list[Finding]]:
    """Verify the logs of the conversations' runs; return the number of events, and the errors."""
    from vibe_llms.conversations.run_logs.file_log import FileLog
    from vibe_llms.exceptions import Finding, StoreError

    count = 0
    findings: list[Finding] = []
    for identity in sorted(store.survey()) if identities is None else identities:
        log = store.open_log(identity)
        if isinstance(log, FileLog):
            try:
                events, found = log.examine()
            except StoreError as error:
                events, found = 0, (Finding(place=error.path, message=error.detail),)
            count += events
            findings.extend(found)
    return count, findings


@command("gc")
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@click.option(
    "--strays",
    is_flag=True,
    help="Also find bytes that the database does not refer to.",
)
@json_option
@yes_option
def gc(dry_run: bool, strays: bool, as_json: bool, yes: bool) -> None:
    """Remove content that no conversation uses.

    Shows what it would remove, and asks first. Content added within the last hour is kept, because
    a program may be about to use it.

    If content is stored outside the database (`content=`), an interrupted move can leave bytes
    there. `--strays` finds them. Do not use it with a copy of a database if the original is in use:
    content that only the original refers to would look unused.
    """
    from vibe_llms.conversations.proof import collect_content, plan_collection
    from vibe_llms.interfaces.cli.consent import require_consent

    store = open_store()
    plan = plan_collection(store, strays=strays)
    if not as_json:
        for content_id in plan.content_ids:
            metadata = store.contents.access_metadata(content_id)
            write(f"{content_id}  {metadata.mime_type}  {metadata.size_bytes} bytes")
        for stray in plan.strays:
            write(f"{stray.content_id}  stray in {stray.location}  {stray.size_bytes} bytes")
    amount = _describe(plan)
    if (plan.content_ids or plan.strays) and not dry_run:
        if not (yes or load_configuration().yes):
            require_consent(f"Remove {amount}?", remedy="Add --yes to remove it, or --dry-run.")
        plan = collect_content(store, plan)
        amount = _describe(plan)
    if as_json:
        document: dict[str, JsonValue] = {
            "removable": list(plan.content_ids),
            "removed": [] if dry_run else list(plan.content_ids),
            "size_bytes": plan.size_bytes,
        }
        if strays:
            document["strays"] = [f"{stray.location} {stray.content_id}" for stray in plan.strays]
        write_json(document)
    else:
        note(f"{'Could be removed' if dry_run else 'Removed'}: {amount}.")


def _describe(plan: Collection) -> str:
    strays = f", {len(plan.strays)} strays" if plan.strays else ""
    return f"{len(plan.content_ids)} contents{strays}, {plan.size_bytes} bytes"
