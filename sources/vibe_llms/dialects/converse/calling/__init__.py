"""Requests to another vibe-llms, and its answers, streams, errors and lists of models."""
