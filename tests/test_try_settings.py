"""tools/try_settings.py: what is compared with what."""

import json

import try_settings as tool


def test_settings_are_compared_seed_by_seed_in_whatever_order_their_runs_ended(tmp_path, monkeypatch, capsys):
    """The advice is ahead by 0.1 in every seed; the lines of its runs stand in another order than the default's."""
    default, advice = tool.LONG[-1][1], {"strength": 0.5}
    monkeypatch.setattr(tool, "PAPERS", {"l2_init": default})
    monkeypatch.setattr(tool, "LONG", (("l2_init", default), ("l2_init", advice)))
    lines = [
        {"method": "l2_init", "fields": fields, "seed": seed, "accuracy": [0.1 * seed + gain] * tool.NUM_STAGES}
        for fields, gain, seeds in ((default, 0.0, range(5)), (advice, 0.1, (3, 0, 4, 1, 2)))
        for seed in seeds
    ]
    (tmp_path / "long.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    tool.try_long(tmp_path / "long.jsonl", range(5))
    assert "+0.100 [+0.100, +0.100]" in capsys.readouterr().out
