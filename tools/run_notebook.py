"""Run a notebook: python tools/run_notebook.py examples/NAME.ipynb runs its cells and writes what they print and draw.

Cells share one namespace, as in Jupyter. Their outputs are texts and the figures that are open at their end, as PNG.
"""

import base64
import contextlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot  # behind the choice of a backend without a screen

Output = dict[str, Any]


def code_cells(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (cell for cell in notebook["cells"] if cell["cell_type"] == "code")


def run_cells_(notebook: dict[str, Any]) -> dict[str, Any]:
    """Run all code cells in order, put their outputs in, and return the namespace."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    pyplot.close("all")  # figures that others left open are not the notebook's
    for number, cell in enumerate(code_cells(notebook), 1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"<cell {number}>", "exec"), namespace)
        cell["execution_count"], cell["outputs"] = number, [*texts(printed.getvalue()), *figures()]
    return namespace


def texts(printed: str) -> list[Output]:
    return [{"output_type": "stream", "name": "stdout", "text": printed.splitlines(keepends=True)}] if printed else []


def figures() -> list[Output]:
    outputs: list[Output] = []
    for number in pyplot.get_fignums():
        picture = io.BytesIO()
        pyplot.figure(number).savefig(picture, format="png", dpi=80, metadata={"Software": None})
        data = {"image/png": base64.b64encode(picture.getvalue()).decode()}
        outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
    pyplot.close("all")
    return outputs


if __name__ == "__main__":
    path = Path(sys.argv[1])
    notebook = json.loads(path.read_text())
    run_cells_(notebook)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
