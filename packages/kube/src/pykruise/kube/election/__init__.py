"""Which of several equal programs works, and on what."""
