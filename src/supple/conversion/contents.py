"""What a tree of modules holds, kept to notice and to undo what a traced forward writes into it."""

import copy
from collections import OrderedDict, defaultdict, deque
from typing import Any

from torch import nn

CONTAINERS = (list, dict, set, OrderedDict, defaultdict, deque)


class Contents:
    """The attributes of a module and its descendants as they are now, and the items of lists, dicts and sets there."""

    def __init__(self, module: nn.Module) -> None:
        self.attributes = {part: dict(vars(part)) for part in module.modules()}
        held = (value for attributes in self.attributes.values() for value in attributes.values())
        self.containers = [(value, copy.copy(value)) for value in held if type(value) in CONTAINERS]

    def undo_changes_(self) -> list[str]:
        """Put everything back; the names of the attributes that had changed."""
        refilled = [pair for pair in self.containers if items(pair[0]) != items(pair[1])]
        touched = {id(container) for container, _ in refilled}
        changed: set[str] = set()
        for part, before in self.attributes.items():
            now = vars(part)
            names = [n for n in {*before, *now} if now.get(n, self) is not before.get(n, self)]
            changed.update(names, (n for n, value in now.items() if id(value) in touched))
            for name in names:
                now.pop(name, None)
            now.update((name, before[name]) for name in names if name in before)
        for container, kept in refilled:
            container.clear()
            (container.update if hasattr(container, "update") else container.extend)(kept)
        return sorted(changed)


def items(container: Any) -> list[Any]:
    """What the container holds, by identity, for tensors would compare by value."""
    if isinstance(container, dict):
        return [(id(key), id(value)) for key, value in container.items()]
    return sorted(map(id, container)) if isinstance(container, set) else list(map(id, container))
