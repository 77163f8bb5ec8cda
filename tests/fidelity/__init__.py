"""What each vendor keeps of what was said to and by another: conversations, walks and checks."""
