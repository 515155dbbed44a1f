"""The parts of `supple.convert`: finding activations and pools in any model, and putting others in their place."""
