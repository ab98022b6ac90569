"""Transforms that keep state from round to round: Structured Streaming with the pipeline's own committer."""
