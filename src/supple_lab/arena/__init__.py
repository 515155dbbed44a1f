"""The arena: every method on the same problems, tuned alike, and placed beside the published runs of the others."""
