"""Runs copied to an S3 store, against a server of moto's on loopback."""

import pytest

from small_runs import counted_steps, interrupted, logs_of, small_spec, unbroken_logs
from supple_lab.cli import supple
from supple_lab.files import StorageError
from supple_lab.run.run import execute
from supple_lab.store.store import Store

pytestmark = pytest.mark.slow
REASON = "`make test-all` installs it"
boto3 = pytest.importorskip("boto3", reason=REASON)
s3fs = pytest.importorskip("s3fs", reason=REASON)
server = pytest.importorskip("moto.server", reason=REASON)

SECRETS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture
def store_server(monkeypatch):
    """A running server, of which every process of the test knows."""
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    for name, value in {**SECRETS, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()  # its clients know an endpoint from the first call on
    boto3.client("s3").create_bucket(Bucket="runs")
    yield running
    running.stop()


def test_study_is_copied_to_s3_and_a_machine_that_shares_nothing_else_reports_it(tmp_path, store_server, capsys):
    words = ["run", "quickstart", "--scale", "smoke", "--quiet", "--mirror", "s3://runs/study", "--out"]
    assert supple([*words, str(tmp_path / "here")]) == 0
    keys = [item["Key"] for item in boto3.client("s3").list_objects_v2(Bucket="runs")["Contents"]]
    assert len([key for key in keys if key.endswith("status.json")]) == 3
    assert supple([*words, str(tmp_path / "there"), "--engine", "inline"]) == 0
    for run in (tmp_path / "here" / "runs").iterdir():
        for name in ("records.jsonl", "status.json"):  # copied: a run of its own would have other times
            assert (tmp_path / "there" / "runs" / run.name / name).read_bytes() == (run / name).read_bytes()


def test_run_goes_on_elsewhere_from_the_checkpoint_in_s3(tmp_path, store_server, monkeypatch):
    spec = small_spec()
    interrupted(tmp_path / "here", spec, at_step=15, mirror="s3://runs")
    steps = counted_steps(monkeypatch)
    there = Store.create(tmp_path / "there", mirror="s3://runs")
    assert execute(spec, there) == "done"
    assert len(steps) == 24 - 15
    assert logs_of(there, spec) == unbroken_logs(tmp_path / "alone", spec)


@pytest.mark.parametrize("wrong", ["no server", "no rights"])
def test_server_that_does_not_answer_or_refuses_is_told_in_a_sentence(wrong, tmp_path, store_server, monkeypatch):
    if wrong == "no server":
        store_server.stop()
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    else:
        for name in SECRETS:
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    store = Store.create(tmp_path / "here", mirror="s3://runs")
    with pytest.raises(StorageError, match="What is on this machine is whole"):
        execute(small_spec(), store)
