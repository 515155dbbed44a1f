"""A method that is nowhere to be found, such as one of a plugin that is not given, costs a report its runs alone."""

import json

import pytest

from supple_lab.cli import supple
from supple_lab.paper.manifest import path_of, read_manifest

pytestmark = pytest.mark.usefixtures("no_picture_files")

RUN = ["run", "quickstart", "--scale", "smoke", "--methods", "vanilla", "--engine", "inline", "--quiet"]
STRANGER = {"method": {"kind": "my_method"}, "seed": 7}


@pytest.fixture
def out(tmp_path, capsys):
    """A folder in which a method of one's own was run once, and a method of ours."""
    assert supple([*RUN, "--out", str(tmp_path)]) == 0
    path = path_of(tmp_path, "quickstart")
    content = json.loads(path.read_bytes())
    content["order"]["also"].append("my_method")
    content["specs"].append(STRANGER)
    content["commands"].append("supple run quickstart --plugin 'my file.py' --methods my_method")
    path.write_text(json.dumps(content))
    capsys.readouterr()
    return tmp_path


@pytest.mark.parametrize("command", [["report"], RUN], ids=["report", "run"])
def test_what_is_known_is_reported_and_the_rest_named_with_its_plugin(out, command, capsys):
    given = [*command, str(out)] if command == ["report"] else [*command, "--out", str(out)]
    assert supple(given) == 0
    written = json.loads((out / "report" / "quickstart.json").read_bytes())
    assert {run["method"] for run in written["runs"] if run["status"] == "done"} == {"vanilla"}
    (note,) = [note for note in written["notes"] if "my_method" in note]
    assert note.startswith("no method named 'my_method' is known here, so its runs are left out: my_method, seed 7 (")
    assert "it was ordered with --plugin 'my file.py'" in note
    assert note in capsys.readouterr().err
    assert "another version" not in "".join(written["notes"])
    assert read_manifest(out, "quickstart").order.also == ("vanilla", "my_method")  # for whoever has the plugin
