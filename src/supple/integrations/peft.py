"""PEFT: AID inside LoRA adapters, between the projection down (A) and the projection up (B).

    model = put_aid_in_lora(get_peft_model(base, LoraConfig(r=16, target_modules=["query", "value"])), AID(p=0.9))

The adapter is then W x + scaling * B aid(A x). The names of its weights stay, so saving and loading are PEFT's own; but
the file alone would be read as linear LoRA (PEFT warns of a field it does not know), so the saved config says p, and
``load_lora_with_aid`` puts AID back. Such an adapter cannot be merged into W, which has no nonlinearity to hold it, nor
averaged with others, and says so when that is tried.
"""

import dataclasses
import functools
import inspect
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from supple.layers import AID

try:
    from peft import LoraConfig, PeftModel
    from peft.tuners.lora import LoraLayer, LoraModel
    from peft.tuners.lora.layer import MultiheadAttention
except ImportError as error:
    raise ImportError("supple.integrations.peft needs: pip install peft") from error

COMBINING = ("merge_adapter", "merge_and_unload", "add_weighted_adapter")  # what takes adapters for matrices


@dataclass
class LoraWithAIDConfig(LoraConfig):
    """PEFT's config of an adapter with AID in it; PEFT itself warns of the field it does not know."""

    aid_relu_prob: float | None = None

    @classmethod
    def from_peft_type(cls, **values: Any) -> "LoraWithAIDConfig":
        """This class, where PEFT would take the one that it knows by the name of the type."""
        names = {field.name for field in dataclasses.fields(cls) if field.init} - {"peft_type"}
        return cls(**{name: value for name, value in values.items() if name in names})


def put_aid_in_lora(model: PeftModel, activation: AID, *, adapter: str = "default") -> PeftModel:
    """Give every linear or convolutional LoRA layer of the adapter an AID of its own; the model is changed in place."""
    if not isinstance(activation, AID):
        raise TypeError(f"put_aid_in_lora needs the activation as AID(p=...); got {activation!r}.")
    layers: list[Any] = [m for m in model.modules() if isinstance(m, LoraLayer) and adapter in m.lora_A]
    if not layers:
        raise ValueError(
            f"no linear or convolutional LoRA layer of an adapter named '{adapter}' was found in this "
            f"{type(model).__name__}. Make it first: get_peft_model(base, LoraConfig(target_modules=[...]))."
        )
    for layer in layers:
        check_plain(layer, adapter)
    for layer in layers:
        down = layer.lora_A[adapter]
        if not hasattr(down, "activation"):  # an AID that is there is replaced
            down.register_forward_hook(activated)
        down.activation = AID(p=activation.p).train(down.training)
        layer.get_delta_weight = functools.partial(delta_weight, layer)
    configs: dict[str, Any] = model.peft_config
    names = [field.name for field in dataclasses.fields(LoraConfig) if field.init]
    values = {name: getattr(configs[adapter], name) for name in names}
    configs[adapter] = LoraWithAIDConfig(**values, aid_relu_prob=activation.p)
    for tuner in (module for module in model.modules() if isinstance(module, LoraModel)):
        for act in COMBINING:
            setattr(tuner, act, functools.partial(combine, tuner, act))
    return model


def load_lora_with_aid(base: nn.Module, folder: str | Path, **options: Any) -> PeftModel:
    """``PeftModel.from_pretrained`` for an adapter saved with AID in it; the options are PEFT's.

    A PeftModel gets one more adapter, as by its ``load_adapter``: ``adapter_name`` says how it is called.
    """
    config = LoraWithAIDConfig.from_pretrained(str(folder), **options)
    adapter = options.setdefault("adapter_name", "default")
    if config.aid_relu_prob is None:
        raise ValueError(f"{folder} holds an adapter without AID. Load it with PeftModel.from_pretrained.")
    if not isinstance(base, PeftModel):
        model = PeftModel.from_pretrained(base, str(folder), config=config, **options)
    elif adapter in base.peft_config:
        raise ValueError(f"this model has an adapter named '{adapter}'; give the new one a name: adapter_name=...")
    else:
        model = base
        with warnings.catch_warnings():  # of the one field that is read here
            warnings.filterwarnings("ignore", message=r"Unexpected keyword arguments \['aid_relu_prob'\]")
            model.load_adapter(str(folder), **options)
    return put_aid_in_lora(model, AID(p=config.aid_relu_prob), adapter=adapter)


def activated(down: Any, args: tuple[Any, ...], output: Tensor) -> Tensor:
    """A forward hook: what A gives goes through the activation that A holds."""
    result: Tensor = down.activation(output)
    return result


def delta_weight(layer: Any, adapter: str) -> Tensor:
    """What PEFT would add to W in a merge, or an error where there is no such thing."""
    if hasattr(layer.lora_A[adapter], "activation"):
        raise NotImplementedError(NO_MATRIX.format(adapter=adapter))
    weight: Tensor = type(layer).get_delta_weight(layer, adapter)
    return weight


def combine(tuner: Any, act: str, *args: Any, **options: Any) -> Any:
    """One of COMBINING, by PEFT; refused before anything is changed if one of the adapters has AID in it."""
    plain = getattr(type(tuner), act)
    given = inspect.signature(plain).bind(tuner, *args, **options).arguments
    wanted = given.get("adapters") or given.get("adapter_names") or tuner.active_adapters
    layers = [module for module in tuner.modules() if isinstance(module, LoraLayer)]
    for adapter in wanted:
        if any(adapter in layer.lora_A and hasattr(layer.lora_A[adapter], "activation") for layer in layers):
            raise NotImplementedError(NO_MATRIX.format(adapter=adapter))
    return plain(tuner, *args, **options)


NO_MATRIX = (
    "the adapter '{adapter}' has AID between its two projections, so it is no matrix and cannot be merged into the "
    "weights or with other adapters. Keep it as an adapter: save_pretrained, then load_lora_with_aid."
)


def check_plain(layer: Any, adapter: str) -> None:
    """Refuse variants of LoRA that use the product of the projections, and adapters that are merged."""
    variant = getattr(layer, "lora_variant", {}).get(adapter)
    if variant is not None or getattr(layer, "use_dora", {}).get(adapter):
        name = "DoRA" if variant is None else type(variant).__name__
        raise ValueError(f"put_aid_in_lora is for plain LoRA; the adapter '{adapter}' is a variant of it ({name}).")
    if isinstance(layer, MultiheadAttention):
        raise ValueError(
            "put_aid_in_lora cannot serve nn.MultiheadAttention, into whose weights PEFT merges the adapter at every "
            "forward. Leave it out of target_modules, or take a model with separate query, key and value layers."
        )
    if layer.merged:
        raise ValueError("put_aid_in_lora needs the adapter unmerged; call model.unmerge_adapter() first.")
