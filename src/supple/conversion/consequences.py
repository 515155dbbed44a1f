"""What a swap means for the network around it, and for weights that were trained before."""

from torch import nn

from supple.layers import AID

# Their outputs lie between bounds that the network may rely on, as a gate or a probability.
BOUNDED = (nn.Sigmoid, nn.Hardsigmoid, nn.Tanh, nn.Hardtanh, nn.Softsign)

# Names under which linear attention holds the activation of its queries and keys (timm's LiteMLA, Performer).
ATTENTION_KERNELS = {"kernel_fn", "kernel_func"}
DENOMINATOR = (
    "left alone, as the kernel of an attention: its values are summed to a denominator and must not be negative"
)


def consequence(replaced: type[nn.Module], activation: nn.Module) -> str | None:
    """What is lost when the activation stands for the replaced class; None for ReLU, whose relatives they are."""
    if issubclass(replaced, nn.ReLU6):
        return "its cap at 6 is gone"
    if issubclass(replaced, nn.ReLU) or isinstance(activation, replaced):
        return None
    if issubclass(replaced, BOUNDED):
        return f"its bounds are gone: where it was a gate, {type(activation).__name__} does not serve"
    return (
        f"its curve is gone: {described(activation)}; weights trained with {replaced.__name__} no longer fit, so train "
        "them further, or from the start"
    )


def described(activation: nn.Module) -> str:
    """What the activation computes instead; of AID, in evaluation."""
    if isinstance(activation, AID):
        slopes = f"{activation.p:g} above zero, {1 - activation.p:g} below"
        return f"{activation} in evaluation is a leaky ReLU of slope {slopes}"
    return f"{activation} computes another"
