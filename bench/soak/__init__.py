"""A database under steady traffic and its copies in both formats: whether what they use stays the same."""
