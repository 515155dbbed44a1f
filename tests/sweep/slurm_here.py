"""A SLURM cluster of one node on this machine: munged, slurmctld and slurmd, in a folder of their own."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel", "sinfo")
SECONDS_TO_START = 30
CONFIGURATION = """
ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={home}/munge.socket,cred_expire=3
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.pid
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
KillWait=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1
NodeName=here NodeHostname={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=low Nodes=here Default=YES PriorityTier=1 GraceTime=2 State=UP
PartitionName=high Nodes=here PriorityTier=2 PreemptMode=OFF State=UP
"""


@contextmanager
def cluster(home: Path) -> Iterator[None]:
    """While it lasts, this process's sbatch and the others speak to the cluster. Only in a network namespace."""
    # With loopback alone glibc resolves no name, not even of this machine, and SLURM must.
    subprocess.run(["ip", "address", "add", "192.0.2.1", "dev", "lo"])
    (home / "state").mkdir()
    (home / "spool").mkdir()
    (home / "slurm.conf").write_text(CONFIGURATION.format(home=home, host=os.uname().nodename))
    (home / "munge.key").write_bytes(os.urandom(128))
    (home / "munge.key").chmod(0o600)
    os.environ["SLURM_CONF"] = str(home / "slurm.conf")
    files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    munge = ["munged", "--foreground", "--force", *(f"--{name}={home}/munge.{end}" for name, end in files.items())]
    servers: list[subprocess.Popen[bytes]] = []
    try:
        for command in (munge, ["slurmctld", "-D"], ["slurmd", "-D", "-N", "here"]):
            log = (home / f"{command[0]}.out").open("wb")
            servers.append(subprocess.Popen(command, stdout=log, stderr=log))
            if command is munge:
                wait_for(home, lambda: (home / "munge.socket").exists())
        wait_for(home, lambda: b"idle" in said("sinfo", "--noheader", "--format=%t"))
        yield
    finally:
        for server in reversed(servers):
            server.terminate()
            with suppress(subprocess.TimeoutExpired):
                server.wait(10)
            server.kill()
            server.wait()


def said(*command: str) -> bytes:
    return subprocess.run(command, capture_output=True).stdout


def wait_for(home: Path, condition: Callable[[], bool]) -> None:
    until = time.monotonic() + SECONDS_TO_START
    while not condition():
        if time.monotonic() > until:
            logs = [f"{path.name}: {path.read_text()[-1500:]}" for path in home.glob("*.out")]
            raise TimeoutError("\n".join(["the cluster did not start:", *logs]))
        time.sleep(0.2)
