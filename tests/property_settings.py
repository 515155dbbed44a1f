"""How many random examples a property is tried on: few and always the same ones, unless SUPPLE_EXAMPLES says more.

SUPPLE_EXAMPLES=20 tries twenty times as many, drawn afresh in each run, and makes a failing example smaller, which can
take minutes.
"""

import os

from hypothesis import HealthCheck, Phase, settings

FACTOR = int(os.environ.get("SUPPLE_EXAMPLES", "1"))


def examples(num_examples: int) -> settings:
    """Settings for a property that takes this many examples in the quick tests."""
    return settings(
        max_examples=num_examples * FACTOR,
        derandomize=FACTOR == 1,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate] if FACTOR == 1 else [Phase.explicit, Phase.generate, Phase.shrink],
        print_blob=True,
    )
