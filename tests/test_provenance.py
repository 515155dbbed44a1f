"""Where a report comes from."""

import json
import subprocess

import pytest
import torch

from supple_lab.provenance import commit_of, gather_provenance, versions


@pytest.fixture
def repository(tmp_path):
    package = tmp_path / "src" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("one = 1\n")
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "first")):
        subprocess.run(("git", "-C", str(tmp_path), *words), check=True)
    return tmp_path


def head(folder):
    return subprocess.check_output(("git", "-C", str(folder), "rev-parse", "HEAD"), text=True).strip()


def test_commit_is_the_head_of_the_repository_that_tracks_the_file_dirty_if_sources_differ(repository):
    file = repository / "src" / "package" / "__init__.py"
    (repository / "out.txt").write_text("0.9\n")  # results beside the sources
    assert commit_of(file) == head(repository)
    (repository / "src" / "package" / "new.py").write_text("two = 2\n")
    assert commit_of(file) == f"{head(repository)}-dirty"


def test_a_package_that_no_repository_tracks_has_no_commit(repository, tmp_path_factory):
    for folder in (repository / "site-packages" / "package", tmp_path_factory.mktemp("outside")):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").write_text("")
        assert commit_of(folder / "__init__.py") is None


def test_provenance_names_torch_and_the_processor_and_is_json():
    provenance = gather_provenance()
    assert provenance.versions["torch"] == torch.__version__
    assert provenance.machine["cpu"]
    assert json.loads(json.dumps(provenance.machine, allow_nan=False)) == provenance.machine


def test_versions_name_torchs_build_which_its_package_may_leave_out(monkeypatch):
    monkeypatch.setattr(torch, "__version__", torch.torch_version.TorchVersion("2.13.0+cu130"))
    assert versions()["torch"] == "2.13.0+cu130"
    assert type(versions()["torch"]) is str
