"""`python -m supple`: the versions, kernels and devices that a bug report needs; `build`: make the C++ node."""

import platform
import sys

import torch

from supple import kernels
from supple.kernels.node import build_node
from supple.version import __version__


def summary() -> str:
    """A few lines on what is here. What is missing is said, never an error."""
    system = f"{platform.system()} {platform.machine()}"
    devices = [f"cpu ({torch.get_num_threads()} threads)"]
    devices += [f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())]
    devices += ["mps"] if torch.backends.mps.is_available() else []
    return "\n".join(
        [
            f"supple {__version__}, torch {torch.__version__}, Python {platform.python_version()}, {system}",
            *(f"kernel of {line}" for line in kernels.describe().splitlines()),
            f"devices: {', '.join(devices)}",
        ]
    )


def build() -> str:
    """Build the node, or end with a sentence."""
    try:
        return f"built {build_node()}"
    except Exception as error:  # a compiler, a linker and a disk are behind it, each with errors of its own
        sys.exit(f"not built, and supple works without it: {type(error).__name__}: {error}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            print(summary())
        case ["build"]:
            print(build())
        case ["-h" | "--help"]:
            print(__doc__)
        case other:
            sys.exit(f"python -m supple takes build or nothing; got {' '.join(other)!r}.")
