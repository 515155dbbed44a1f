"""tools/choose_settings.py: the best of an entry's tuning runs is noted once all of them have ended."""

import json

import choose_settings as choose
import store_from_report as reports
from supple_lab.paper.study import StudyOptions
from supple_lab.paper.why_aid import WhyAID
from supple_lab.store.store import Store


def test_the_best_setting_is_chosen_once_all_have_ended(tmp_path):
    order = StudyOptions(scale="quick", search=True, only="random labels", methods=("aid", "leaky_relu"))
    specs = WhyAID().specs(order)
    store, accuracies = Store.create(tmp_path), (0.3, 0.9, 0.6, 0.2)
    ended = {"aid": 4, "leaky_relu": 3}
    for name, number in ended.items():
        own = [spec for spec in specs if spec.method.name == name][:number]
        for spec, accuracy in zip(own, accuracies, strict=False):
            records = [{"stage": k, "train_accuracy": accuracy} for k in range(spec.problem.scenario.num_stages)]
            reports.write_run(store, reports.Ended(spec=spec, told={"status": "done"}, records=records))
    (arm,) = (found := choose.chosen(store, "quick"))
    assert (arm, list(found[arm])) == ("random labels", ["aid"])
    best = found[arm]["aid"]
    assert best["method"]["relu_prob"] == specs[1].method.relu_prob == 0.9
    assert list(best["tried"].values()) == list(accuracies)
    assert set(best["tried"]) == {spec.run_id for spec in specs if spec.method.name == "aid"}
    assert json.loads(choose.written({"quick": found})) == {"quick": found}
