"""The protocols of clients: a module each, with the paths and the place of the model's name."""
