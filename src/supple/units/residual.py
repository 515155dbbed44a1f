"""Consecutive layers: a residual network seen as one chain of layers, as Continual Backprop's authors treat it.

The chain is that of the main path, shortcuts skipped. The units that a block gives out are fed by the block's last
layer, though the shortcut adds to them, and read by the next block's first layer, though its shortcut reads them too.
"""

import dataclasses

from torch import nn

from supple.units import Layer, UnitGraph, UnitLayer, is_layer, out_dim


def consecutive_layers(graph: UnitGraph, model: nn.Module) -> UnitGraph:
    """The graph with every residual sum taken for the main path's part of it."""
    layers: list[UnitLayer] = []
    for layer in graph:
        layers.append(fed_by_main_path(layer, after=layers[-1] if layers else None, model=model))
    chain = [read_by_main_path(layer, following) for layer, following in zip(layers, [*layers[1:], None], strict=True)]
    return UnitGraph(tuple(chain), graph.skipped)


def fed_by_main_path(layer: UnitLayer, *, after: UnitLayer | None, model: nn.Module) -> UnitLayer:
    """The layer without its residual sum: fed by what reads the layer before it."""
    if not layer.sums_in or after is None:
        return layer
    readers = [at.layer for at in after.consumers if at.layer.weight.shape[out_dim(at.layer)] == layer.num_units]
    if not readers:
        return layer
    norm = layer.norm or following_norm(model, readers[0])
    return dataclasses.replace(layer, producer=readers[0], norm=norm, sums_in=False)


def read_by_main_path(layer: UnitLayer, following: UnitLayer | None) -> UnitLayer:
    """The layer read by what feeds the next one alone; by all its consumers if none of them does."""
    main = [consumer for consumer in layer.consumers if following and consumer.layer is following.producer]
    return dataclasses.replace(layer, consumers=tuple(main or layer.consumers), sums_out=False)


def following_norm(model: nn.Module, layer: Layer) -> nn.Module | None:
    """The batch norm that stands right behind a layer in the order of modules, if one does."""
    modules = list(model.modules())
    for module in modules[modules.index(layer) + 1 :]:
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            return module if module.num_features == layer.weight.shape[out_dim(layer)] else None
        if is_layer(module):
            return None
    return None
