"""Vendors' answers: generated, streamed, hostile, and from models on this machine."""
