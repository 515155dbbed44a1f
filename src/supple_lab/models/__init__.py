"""Networks of the paper, each built with any activation."""
