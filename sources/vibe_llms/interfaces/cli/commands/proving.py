"""``vibe verify`` and ``vibe gc``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vibe_llms.interfaces.cli.access import load_configuration, open_store, resolve_identity
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.interfaces.cli.options import CONVERSATION, command, json_option, yes_option
from vibe_llms.interfaces.cli.output import note, write, write_json

if TYPE_CHECKING:
    from vibe_llms.conversations.stores.interfaces import ConversationStore
    from vibe_llms.exceptions import Finding


@command("verify")
@click.argument("identities", metavar="[ID]...", nargs=-1, type=CONVERSATION)
@json_option
def verify(identities: tuple[str, ...], as_json: bool) -> int:
    """Prove every line and every content hash, of all conversations or of those named.

    The events of their runs are proven, too, and that no end of a file is lost.

    Changes nothing. Ends with exit code 7 where something is damaged.
    """
    from vibe_llms.conversations.proof import verify as prove

    store = open_store()
    found = [resolve_identity(store, prefix) for prefix in identities] or None
    proof = prove(store, found)
    events, findings = _prove_logs(store, found)
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
            f"Proven: {proof.conversations} conversations, {proof.canisters} canisters, "
            f"{proof.contents} contents, {events} events. Findings: {len(findings)}."
        )
    return ExitCode.STORE if findings else ExitCode.SUCCESS


def _prove_logs(
    store: ConversationStore, identities: list[str] | None
) -> tuple[int, list[Finding]]:
    """Proves the logs of the conversations' runs; returns how many events, and what is wrong."""
    from vibe_llms.exceptions import Finding, StoreError
    from vibe_llms.runs.file_log import FileLog
    from vibe_llms.runs.places import produce_log

    count = 0
    findings: list[Finding] = []
    for identity in sorted(store.survey()) if identities is None else identities:
        log = produce_log(store, identity)
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
@json_option
@yes_option
def gc(dry_run: bool, as_json: bool, yes: bool) -> None:
    """Remove content that no conversation needs.

    Shows first what it would remove, and asks. What was added within the last hour is left
    alone, because a program may be about to speak of it.
    """
    from vibe_llms.conversations.proof import collect_content, plan_collection
    from vibe_llms.interfaces.cli.consent import require_consent

    store = open_store()
    plan = plan_collection(store)
    if not as_json:
        for content_id in plan.content_ids:
            metadata = store.contents.access_metadata(content_id)
            write(f"{content_id}  {metadata.mime_type}  {metadata.size_bytes} bytes")
    amount = f"{len(plan.content_ids)} contents, {plan.size_bytes} bytes"
    if plan.content_ids and not dry_run:
        if not (yes or load_configuration().yes):
            require_consent(f"Remove {amount}?", remedy="Say --yes to remove it, or --dry-run.")
        plan = collect_content(store, plan)
    if as_json:
        removed = [] if dry_run else list(plan.content_ids)
        write_json(
            {
                "removable": list(plan.content_ids),
                "removed": removed,
                "size_bytes": plan.size_bytes,
            }
        )
    else:
        note(f"{'Could be removed' if dry_run else 'Removed'}: {amount}.")
