"""The protocols that clients speak: one module each, with its paths and how it names a model."""
