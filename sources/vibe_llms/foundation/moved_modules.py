"""New names of modules that were renamed, for one release: old imports report the new name."""

from __future__ import annotations

_FOUNDATION = {
    "absence": "sentinels",
    "asynchrony": "portal",
    "clocks": "clocks",
    "closing": "async_closing",
    "concealment": "child_environment",
    "encodings": "encodings",
    "facts": "error_facts",
    "files": "files",
    "findings": "findings",
    "gathering": "coalescing",
    "installing": "optional_packages",
    "laziness": "lazy_imports",
    "limits": "limits",
    "patterns": "linear_regex",
    "plain": "json_types",
    "representation": "reprs",
    "resources": "package_data",
    "secrets": "secrets",
    "slots": "semaphores",
    "suggestions": "suggestions",
    "synchrony": "sync_faces",
    "unreadable": "json_errors",
    "values": "attrs_classes",
    "version": "version",
}
_AGENTS = {
    "hosting": "workers",
    "lanes": "deferred_batches",
    "orders": "run_specs",
    "parking": "deferred_requests",
    "performing": "executing",
    "run_followers": "remote_events",
}
_OTHERS = {
    "batches.orders": "batches.batch_specs",
    "conversations.contents": "conversations.canister_media",
    "conversations.run_logs.lines": "conversations.run_logs.log_lines",
    "conversations.stores.naming": "conversations.stores.identities",
    "daemons.gateway.operate.operation": "daemons.gateway.operate.operator_page",
    "daemons.gateway.operate.workers": "daemons.gateway.operate.worker_states",
    "flows.reading": "flows.task_reading",
    "instruments.channels.following": "instruments.channels.reply_following",
    "instruments.living": "instruments.live_comparisons",
    "instruments.parsers.choosing": "instruments.parsers.modes",
    "instruments.parsers.reading": "instruments.parsers.json_reader",
    "invocables.asking": "invocables.questions",
    "messages.codec.lines": "messages.codec.canister_lines",
}
MOVED = {f"vibe_llms.{old}": f"vibe_llms.foundation.{new}" for old, new in _FOUNDATION.items()} | {
    f"vibe_llms.agents.{old}": f"vibe_llms.agents.{new}" for old, new in _AGENTS.items()
}
MOVED |= {f"vibe_llms.{old}": f"vibe_llms.{new}" for old, new in _OTHERS.items()}
MOVED["vibe_llms.instruments.channels.batches"] = "vibe_llms.batches"
"""The new full name of each module, by its old one."""
