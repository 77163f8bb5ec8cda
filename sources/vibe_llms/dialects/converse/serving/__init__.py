"""Answers to another vibe-llms; imported only to serve clients."""
