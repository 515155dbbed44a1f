"""Chooses the setting of each entry of the study why_aid by its tuning runs, and notes it for the runs that are scored.

    supple run why_aid --scale full --search --out out/why_aid
    python tools/choose_settings.py out/why_aid

What is chosen goes to src/supple_lab/paper/why_aid.json with the scores and ids of all that was tried. An entry is
left as it was while one of its settings has not ended. The rule: the study's first lines.
"""

import json
import sys
from pathlib import Path
from typing import Any

from supple_lab.codec import encode
from supple_lab.paper.study import Scale, StudyOptions
from supple_lab.paper.why_aid import WhyAID, groups_of, selections
from supple_lab.results.load import load_results
from supple_lab.store.store import Store

FILE = Path(__file__).parent.parent / "src/supple_lab/paper/why_aid.json"
SCALES: tuple[Scale, ...] = ("quick", "full")
Json = dict[str, Any]


def main() -> None:
    """Choose by the store that the argument names, and say how many entries have a setting."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python tools/choose_settings.py FOLDER, that of the tuning runs.")
    file = json.loads(FILE.read_text())
    for scale in SCALES:
        for label, entries in chosen(Store.open(Path(sys.argv[1])), scale).items():
            file.setdefault(scale, {}).setdefault(label, {}).update(entries)
        print(f"{scale}: {sum(map(len, file.get(scale, {}).values()))} entries have a setting")
    FILE.write_text(written(file))


def chosen(store: Store, scale: Scale) -> dict[str, Json]:
    """What the store decides: by arm and entry, without those of which something is missing."""
    order = StudyOptions(scale=scale, search=True)
    results = load_results(store, WhyAID().specs(order))
    groups = groups_of(results, order)
    found: dict[str, Json] = {}
    for (label, entry), selection in selections(results, order).items():
        if selection.num_compared == selection.num_configurations:
            spec, tried = selection.chosen.runs[0].spec, groups[label][entry]
            found.setdefault(label, {})[entry] = {
                "method": encode(spec.method),
                "optimizer": encode(spec.optimizer),
                "tried": {run: round(float(value), 6) for run, value in zip(tried.runs, tried.values, strict=True)},
            }
    return found


def written(file: Json) -> str:
    labels = {
        scale: ",\n".join(
            f"  {json.dumps(label)}: {{\n"
            + ",\n".join(f"   {json.dumps(entry)}: {json.dumps(one)}" for entry, one in entries.items())
            + "\n  }"
            for label, entries in own.items()
        )
        for scale, own in file.items()
    }
    return "{\n" + ",\n".join(f" {json.dumps(scale)}: {{\n{text}\n }}" for scale, text in labels.items()) + "\n}\n"


if __name__ == "__main__":
    main()
