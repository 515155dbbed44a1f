"""The curves of the page on plasticity loss: run its code, write docs/images/gap.json."""

import json
import re
from typing import Any

import torch
from shade import IMAGES

from supple_lab.provenance import machine

PAGE = IMAGES.parent / "is_it_plasticity_loss.md"
NAMES = ("lost", "kept", "known")

if __name__ == "__main__":
    results: dict[str, Any] = {}
    exec("".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)), results)
    about = {"torch": torch.__version__, "cpu": machine()["cpu"]}
    gaps = {
        name: {
            "verdict": results[name].verdict,
            "steps": results[name].curves["steps"].tolist(),
            **{who: results[name].curves[who].mul(1e4).round().div(1e4).tolist() for who in ("model", "fresh")},
        }
        for name in NAMES
    }
    (IMAGES / "gap.json").write_text(json.dumps({"about": about, "gaps": gaps}) + "\n")
