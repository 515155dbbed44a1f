"""The golden file: run ids, records of small runs and published claims are what they were."""

import json
from pathlib import Path

import pytest

import golden

ROOT = Path(__file__).parent.parent
MASKED = ("aid", "dropout", "drop_relu")  # drawn by the kernel in C
EXPECTED = json.loads(golden.FILE.read_bytes())


def test_run_ids_are_what_they_were():
    assert golden.run_ids() == EXPECTED["run_ids"]


def test_published_claims_are_what_they_were():
    assert golden.published_claims() == EXPECTED["claims"]


def test_every_small_run_is_kept():
    assert golden.small_runs().keys() == EXPECTED["records"].keys()


@pytest.mark.parametrize("name", EXPECTED["records"])
def test_records_are_what_they_were(name, request):
    if name.endswith(MASKED):
        request.getfixturevalue("kernel")
    records, expected = golden.records_of(golden.small_runs()[name]), EXPECTED["records"][name]
    if golden.processor() == EXPECTED["cpu"]:
        assert records == expected
    assert [record.keys() for record in records] == [record.keys() for record in expected]
    for now, before in zip(records, expected, strict=True):
        assert now == pytest.approx(before, rel=1e-6, abs=1e-6, nan_ok=True)
