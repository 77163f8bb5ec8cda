"""The protocols of clients: one module each, with its paths and where a request names its model."""
