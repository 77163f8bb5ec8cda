"""The version of this package; ``.ci/release`` sets it."""

__version__ = "0.1.0"
