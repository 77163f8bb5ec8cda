"""Embeddings: the forms in which vendors take texts and return their vectors."""
