"""Speech: the forms in which vendors take texts and return audio."""
