"""Decoders: records as they came, into Arrow batches."""
