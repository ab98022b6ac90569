"""Which dataset each place of a plan is, by every kind of evidence there is, in a fixed order."""
