"""Models of other libraries, made without a download: what conversion is tried on, and what its table is about."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

import timm_shim

# What a user would name to convert a whole network; sigmoid and tanh are gates or heads in all of these.
ACTIVATIONS = (nn.ReLU, nn.ReLU6, nn.GELU, nn.SiLU, nn.Hardswish)
IMAGES = (2, 3, 64, 64)
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 50}
DISTILBERT = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, "vocab_size": 50}
GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 50}
OPT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 32, "vocab_size": 50}
OPT |= {"word_embed_proj_dim": 16}
T5 = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "vocab_size": 50}
T5 |= {"decoder_start_token_id": 0}
TOKENS = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}


@dataclass(frozen=True)
class ZooModel:
    """How a library makes the model, what it is called with, and how many activations ``convert`` can swap in it."""

    library: str
    name: str
    make: Callable[[Any], nn.Module]
    num_activations: int
    inputs: Callable[[], dict[str, Any]] = lambda: {"x": torch.randn(IMAGES)}

    @property
    def is_slow(self) -> bool:
        """Whether trying it takes seconds."""
        return self.name in ("efficientnet_b0", "densenet121", "googlenet", "swin_t")

    def __str__(self) -> str:
        return f"{self.library}-{self.name}".replace(" ", "_")

    def output(self, model: nn.Module) -> torch.Tensor:
        """What the model gives for its inputs: the first tensor, if it gives several."""
        inputs = self.inputs()
        output = model(*inputs.values()) if "x" in inputs else model(**inputs)
        return output if isinstance(output, torch.Tensor) else output[0]


def images(library: str, name: str, num_activations: int, **options: Any) -> ZooModel:
    """An image classifier of timm or torchvision."""

    def make(module: Any) -> nn.Module:
        create = module.create_model if library == "timm" else module.models.get_model
        return create(name, num_classes=3, **options)

    size = 224 if "vit" in name else IMAGES[-1]
    return ZooModel(library, name, make, num_activations, lambda: {"x": torch.randn(2, 3, size, size)})


def text(name: str, config: str, model: str, num_activations: int, **options: Any) -> ZooModel:
    """A network of transformers from a configuration of two small layers."""

    def make(module: Any) -> nn.Module:
        return getattr(module, model)(getattr(module, config)(**TOKENS, **(options or SMALL)))

    ids = {"input_ids": torch.arange(12).reshape(2, 6) + 3}
    decoder = {"decoder_input_ids": ids["input_ids"]} if "T5" in model else {}
    return ZooModel("transformers", name, make, num_activations, lambda: ids | decoder | {"return_dict": False})


MODELS = [
    images("timm", "resnet18", 17),
    images("timm", "vgg16_bn", 15, mlp_ratio=0.01),
    images("timm", "convnext_atto", 12),
    images("timm", "mobilenetv3_small_050", 33),
    images("timm", "efficientnet_b0", 49),
    images("timm", "vit_tiny_patch16_224", 12),
    images("torchvision", "resnet18", 17),
    images("torchvision", "mobilenet_v2", 35),
    images("torchvision", "densenet121", 121),
    images("torchvision", "googlenet", 61, init_weights=False),
    images("torchvision", "swin_t", 12),
    text("BERT, 2 layers", "BertConfig", "BertForSequenceClassification", 2),
    text("DistilBERT, 2 layers", "DistilBertConfig", "DistilBertForSequenceClassification", 3, **DISTILBERT),
    text("GPT-2, 2 layers", "GPT2Config", "GPT2LMHeadModel", 2, **GPT2),
    text("OPT, 2 layers", "OPTConfig", "OPTForCausalLM", 2, **OPT),
    text("Llama, 2 layers", "LlamaConfig", "LlamaForCausalLM", 2),
    text("T5, 2 + 2 layers", "T5Config", "T5ForConditionalGeneration", 4, **T5),
]


def import_library(name: str) -> Any:
    """The library, also where torchvision has lost its operators; ImportError or RuntimeError if it cannot be had."""
    timm_shim.declare_operators()
    return importlib.import_module(name)
