"""Illustrations: the forms in which vendors take prompts and return images."""
