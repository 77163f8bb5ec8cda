"""Names of modules that have moved; kept for one release."""

from __future__ import annotations

MOVED = {
    "vibe_llms.foundation.sentinels": "vibe_llms.foundation.sentinels",
    "vibe_llms.foundation.portal": "vibe_llms.foundation.portal",
    "vibe_llms.foundation.clocks": "vibe_llms.foundation.clocks",
    "vibe_llms.foundation.async_closing": "vibe_llms.foundation.async_closing",
    "vibe_llms.foundation.child_environment": "vibe_llms.foundation.child_environment",
    "vibe_llms.foundation.encodings": "vibe_llms.foundation.encodings",
    "vibe_llms.foundation.error_facts": "vibe_llms.foundation.error_facts",
    "vibe_llms.foundation.files": "vibe_llms.foundation.files",
    "vibe_llms.foundation.findings": "vibe_llms.foundation.findings",
    "vibe_llms.foundation.coalescing": "vibe_llms.foundation.coalescing",
    "vibe_llms.foundation.optional_packages": "vibe_llms.foundation.optional_packages",
    "vibe_llms.foundation.lazy_imports": "vibe_llms.foundation.lazy_imports",
    "vibe_llms.foundation.limits": "vibe_llms.foundation.limits",
    "vibe_llms.foundation.linear_regex": "vibe_llms.foundation.linear_regex",
    "vibe_llms.foundation.json_types": "vibe_llms.foundation.json_types",
    "vibe_llms.foundation.reprs": "vibe_llms.foundation.reprs",
    "vibe_llms.foundation.package_data": "vibe_llms.foundation.package_data",
    "vibe_llms.foundation.secrets": "vibe_llms.foundation.secrets",
    "vibe_llms.foundation.semaphores": "vibe_llms.foundation.semaphores",
    "vibe_llms.foundation.suggestions": "vibe_llms.foundation.suggestions",
    "vibe_llms.foundation.sync_faces": "vibe_llms.foundation.sync_faces",
    "vibe_llms.foundation.json_errors": "vibe_llms.foundation.json_errors",
    "vibe_llms.foundation.attrs_classes": "vibe_llms.foundation.attrs_classes",
    "vibe_llms.foundation.version": "vibe_llms.foundation.version",
}
"""From old names of modules to new ones, for the notice in the error of an old import."""
