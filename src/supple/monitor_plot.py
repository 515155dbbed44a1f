"""The Monitor's picture: the history of each layer's numbers."""

from collections.abc import Iterable
from typing import Any

from supple.monitor_table import Row

PANELS = {
    "dormant": "units that never fire",
    "saturated": "units that never change sign",
    "sign_entropy": "sign entropy, bits",
    "srank": "directions (srank)",
    "weight_norm": "weight norm",
    "gradient_norm": "gradient norm",
}
SHARES = {"dormant", "saturated"}
MOST_NAMED = 12  # lines in a legend


def history_figure(rows: Iterable[Row], *, title: str) -> Any:
    """Draw a panel for each number and a line for each layer, from the first to the last layer dark to light."""
    try:
        from matplotlib import colormaps, pyplot, ticker
    except ImportError as error:
        raise ImportError("monitor.plot() draws with matplotlib: pip install matplotlib.") from error
    curves = history(rows)
    if not curves:
        raise ValueError("nothing has been read yet; call monitor.step() once per training step.")
    layers = list(dict.fromkeys(layer for layer, _ in curves))
    colours = {layer: colormaps["viridis"](0.9 * place / max(1, len(layers) - 1)) for place, layer in enumerate(layers)}
    figure = pyplot.figure(figsize=(11.0, 5.8), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    for axes, (key, about) in zip(figure.subplots(2, 3, sharex=True).flat, PANELS.items(), strict=True):
        for layer in layers:
            if points := curves.get((layer, key)):
                steps, values = zip(*points, strict=True)
                axes.plot(steps, values, color=colours[layer], linewidth=1.6, marker="o", markersize=3, label=layer)
        axes.set_title(about, loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        if key in SHARES:
            axes.set_ylim(-0.03, 1.03)
            axes.yaxis.set_major_formatter(ticker.PercentFormatter(1.0))
        elif key == "gradient_norm" and any(value > 0 for line in axes.get_lines() for value in line.get_ydata()):
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 3.0)))
            axes.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
            axes.yaxis.set_minor_formatter(ticker.NullFormatter())
        else:
            axes.set_ylim(bottom=0)
    figure.supxlabel("step", fontsize=10)
    handles = {line.get_label(): line for axes in figure.axes for line in axes.get_lines()}
    named = layers if len(layers) <= MOST_NAMED else [layers[0], layers[len(layers) // 2], layers[-1]]
    figure.legend([handles[name] for name in named], named, loc="outside right upper", title="layer", frameon=False)
    return figure


def history(rows: Iterable[Row]) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Return the steps and values of each layer and number; of training forwards, else of the probe."""
    curves: dict[str, dict[tuple[str, str], list[tuple[float, float]]]] = {"train": {}, "probe": {}}
    for row in rows:
        for tag, value in row.items():
            source, _, rest = tag.partition("/")
            layer, _, key = rest.rpartition("/")
            if layer and key in PANELS:
                curves[source].setdefault((layer, key), []).append((row["step"], value))
    of_units = any(key == "srank" for _, key in curves["train"])
    return curves["train"] if of_units or not curves["probe"] else curves["probe"]
