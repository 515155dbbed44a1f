"""What figures and tables call the methods: the paper's names; and the optimizers, by their learning rates."""

from supple_lab.runs.optimizer import Optimizer

LABELS = {
    "vanilla": "ReLU",
    "dropout": "ReLU + Dropout",
    "aid": "AID",
    "drop_relu": "DropReLU",
    "rrelu": "RReLU",
    "crelu": "CReLU",
    "fourier": "Fourier",
    "identity": "identity",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "l2": "L2",
    "l2_init": "L2 Init",
    "s_ewc": "S-EWC",
    "shrink_perturb": "S&P",
    "dash": "DASH",
    "redo": "ReDo",
    "cbp": "CBP",
    "full_reset": "full reset",
}


def label_of(method: str) -> str:
    """What a method is called; one that the paper does not have, by its own name."""
    return LABELS.get(method, method)


def label_of_optimizer(optimizer: Optimizer) -> str:
    """An optimizer with its learning rate as people write it: Adam 1e-3."""
    digits, exponent = f"{optimizer.learning_rate:e}".split("e")
    return f"{type(optimizer).__name__} {float(digits):g}e{int(exponent)}"
