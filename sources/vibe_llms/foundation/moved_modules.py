"""Names of modules that have moved; kept for one release."""

from __future__ import annotations

_NAMES = {
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
}
MOVED = {f"vibe_llms.{old}": f"vibe_llms.foundation.{new}" for old, new in _NAMES.items()} | {
    f"vibe_llms.agents.{old}": f"vibe_llms.agents.{new}" for old, new in _AGENTS.items()
}
MOVED["vibe_llms.instruments.channels.batches"] = "vibe_llms.batches"
MOVED["vibe_llms.instruments.living"] = "vibe_llms.instruments.live_comparisons"
MOVED["vibe_llms.conversations.contents"] = "vibe_llms.conversations.canister_media"
"""New names of modules by their old ones, for the errors of old imports."""
