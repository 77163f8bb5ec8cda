"""What the commands about runs share: the run that is named, and words for what happens."""
