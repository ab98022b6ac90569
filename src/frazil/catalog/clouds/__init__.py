"""Tokens of Google and Azure: for the server's own reading and writing, and to make vended ones from."""
