"""The whole result of a pipeline, computed anew in batch and swapped in by one commit."""
