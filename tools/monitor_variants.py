"""Monitor variants: new ways to train, on which the Monitor's rule and `supple.diagnose` are tested.

None of them is in the reference set (`monitor_trainings.REGIMES`) on which the rule was chosen: each has another size,
other images, and mostly another learning rate or optimizer. The list was committed before any of them had been run.
"""

from dataclasses import replace

from monitor_trainings import PLAIN, WORN, Setting, variants

EARLY, LATE = (0, 900), (900, 1797)
# Four variants: narrow; wide and deeper; deeper; twice as wide.
SIZES = {"width": (0.75, 1.5, 1.0, 2.0), "depth": (0, 1, 1, 0), "images": (EARLY, LATE, EARLY, LATE)}


def sized(base: Setting, **values: tuple[float | str, ...]) -> tuple[Setting, ...]:
    return variants(base, **SIZES, **values)


TESTED = {
    "healthy": sized(
        PLAIN,
        lr=(5e-4, 5e-4, 2e-3, 7e-4),
        optimizer=("adam", "adamw", "adam", "rmsprop"),
        activation=("gelu", "relu", "tanh", "relu"),
    ),
    "sgd": sized(replace(PLAIN, optimizer="sgd"), lr=(5e-3, 2e-2, 5e-2, 7e-2)),
    "rate_too_low": sized(PLAIN, lr=(3e-6, 1e-6, 2e-5, 3e-7), optimizer=("adam", "adamw", "adam", "rmsprop")),
    "rate_too_high": sized(PLAIN, lr=(1.5e-2, 3e-2, 1e-1, 3e-1), activation=("relu", "relu", "tanh", "gelu")),
    "forgetting": sized(
        replace(PLAIN, stages="classes"), lr=(2e-3, 5e-4, 1e-3, 7e-4), norm=(False, True, False, False)
    ),
    "labels": sized(replace(WORN, reuse=1), lr=(5e-4, 2e-4, 7e-4, 5e-4), activation=("relu", "gelu", "relu", "tanh")),
    "stale": sized(replace(PLAIN, optimizer="stale"), lr=(2e-3, 5e-4, 1e-3, 2e-3), norm=(False, True, False, False)),
    "remedy": sized(
        WORN,
        lr=(7e-4, 7e-4, 1e-3, 5e-4),
        activation=("aid", "relu", "aid", "relu"),
        remedy=("", "l2_init", "l2_init", "cbp"),
    ),
    "worn": sized(WORN, lr=(2e-3, 1e-3, 2e-3, 3e-3), fast=(10.0, 15.0, 15.0, 7.0)),
    "worn_tanh": sized(replace(WORN, activation="tanh"), lr=(2e-3, 1e-3, 2e-3, 1e-3), fast=(20.0, 30.0, 30.0, 50.0)),
    "decay": sized(
        PLAIN,
        lr=(1e-3, 5e-4, 1e-3, 5e-4),
        decay=(1e-2, 5e-2, 2e-2, 1e-1),
        optimizer=("adam", "adam", "rmsprop", "adam"),
    ),
    "fast": sized(replace(PLAIN, norm=True), lr=(2e-3, 1e-3, 5e-4, 1e-3), fast=(50.0, 50.0, 300.0, 200.0)),
    "dead": sized(replace(PLAIN, damage="dead"), lr=(2e-3, 5e-4, 1e-3, 7e-4), norm=(False, True, False, False)),
    "saturated": sized(replace(PLAIN, damage="saturated", activation="tanh"), lr=(2e-3, 5e-4, 1e-3, 7e-4)),
    "clones": sized(
        replace(PLAIN, damage="clones"), lr=(2e-3, 5e-4, 1e-3, 7e-4), activation=("relu", "gelu", "tanh", "relu")
    ),
    "growth": sized(replace(PLAIN, damage="growth", norm=True), lr=(2e-3, 5e-4, 7e-4, 1e-3)),
}
# What a regime plants, by the names of `supple.diagnose`; of those in UNSPOILT nothing is.
PLANTED = {
    "dead": "dead units",
    "saturated": "saturation",
    "clones": "rank collapse",
    "growth": "weight growth",
    "stale": "stale optimizer state",
    "rate_too_high": "learning rate too high",
    "rate_too_low": "learning rate too low",
}
UNSPOILT = ("healthy", "sgd", "forgetting", "labels", "remedy")
