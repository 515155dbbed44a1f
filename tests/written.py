"""Networks from a line of source, as a user would write it in a file."""

import itertools
import linecache
import random
import textwrap

import torch
import torch.nn.functional as F
from torch import nn

NUMBERS = itertools.count()


def network_of(code, **attributes):
    """A class whose forward returns the expression of self and x, or has these lines."""
    lines = textwrap.dedent(code).strip() if "return " in code else f"return {code}"
    return class_of("def forward(self, x):\n" + textwrap.indent(lines, "    "), **attributes)


def class_of(body, **attributes):
    """A module class with these methods; its attributes are set on every instance. F, torch, nn, random are known."""
    filename = f"<written {next(NUMBERS)}>"
    source = f"class Written(nn.Module):\n{textwrap.indent(textwrap.dedent(body), '    ')}\n"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    names = {"F": F, "torch": torch, "nn": nn, "random": random, "__name__": __name__}
    exec(compile(source, filename, "exec"), names)

    class Made(names["Written"]):
        def __init__(self):
            super().__init__()
            for name, value in attributes.items():
                setattr(self, name, value)

    return Made


def holding(parts):
    """Decorate a module class: every instance holds what ``parts()`` gives."""

    def decorated(cls):
        def __init__(self):
            nn.Module.__init__(self)
            for name, part in parts().items():
                setattr(self, name, part)

        cls.__init__ = __init__
        return cls

    return decorated
