"""What the words of the `pykruise` command take, and which module does what they say."""
