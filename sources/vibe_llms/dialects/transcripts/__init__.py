"""Transcripts: the forms in which vendors take audio and return its words."""
