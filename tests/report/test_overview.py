"""Several studies in one folder: nothing is overwritten, and the index names them all."""

from dataclasses import replace

import pytest
from samples import INFO, RESULTS, curve, figure, panel, study_report
from test_page import Elements

from supple_lab.report.write import write_report

pytestmark = pytest.mark.usefixtures("no_picture_files")

REPORT = study_report(figure(panel(curve())))


def test_two_studies_share_a_folder_without_touching_each_others_files_and_the_index_leads_to_both(tmp_path):
    write_report(tmp_path, INFO, results=RESULTS, report=REPORT)
    before = {path: path.read_bytes() for path in tmp_path.rglob("sample*")}
    page = write_report(tmp_path, replace(INFO, study="other", title="Another"), results=RESULTS, report=REPORT)
    assert page == tmp_path / "other.html"
    assert {path: path.read_bytes() for path in tmp_path.rglob("sample*")} == before
    assert (tmp_path / "other_accuracy.png").is_file()
    index = Elements((tmp_path / "index.html").read_text())
    assert index.open == []
    assert [link["href"] for link in index.of("a")] == ["other.html", "sample.html"]
