"""The version of this package, which also those below its front door may name."""

__version__ = "0.1.0"
