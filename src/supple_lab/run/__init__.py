"""One run: a spec goes in, records come out."""
