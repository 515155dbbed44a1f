"""A stand-in for SLURM: sbatch, srun, sacct, scancel and scontrol over plain processes of this machine.

Called as one of them through links that `install` makes. A job is a process that runs the batch file again as long as
somebody asked for it to be queued again. State is kept in files beside the links.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

NAMES = ("sbatch", "srun", "sacct", "scancel", "scontrol")
HOME = Path(sys.argv[0]).absolute().parent


def install(folder: Path) -> None:
    from programs import write_program

    folder.mkdir()
    for name in NAMES:
        write_program(folder / name, Path(__file__).read_text())


def sbatch(path: str) -> None:
    text = Path(path).read_text()
    (HOME / "sbatch.log").open("a").write(text)
    number = 100 + len(list(HOME.glob("*.pid")))
    array = re.search(r"#SBATCH --array=0-(\d+)", text)
    limit = HOME / "MaxArraySize"
    if array and limit.exists() and int(array[1]) >= int(limit.read_text()):
        sys.exit("sbatch: error: Batch job submission failed: Invalid job array specification")
    for index in range(int(array[1]) + 1) if array else [None]:
        job = str(number) if index is None else f"{number}_{index}"
        own = {"SLURM_JOB_ID": job.replace("_", "0"), "SLURM_JOB_NUM_NODES": "1", "SLURM_NTASKS": "1"}
        own |= {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SUBMITIT_EXECUTOR": "slurm"}
        if index is not None:
            own |= {"SLURM_ARRAY_JOB_ID": str(number), "SLURM_ARRAY_TASK_ID": str(index)}
        command = [sys.executable, str(HOME / "sbatch"), "--keep", job, path]
        process = subprocess.Popen(
            command, env={**os.environ, **own}, stdout=subprocess.DEVNULL, stderr=(HOME / f"{job}.log").open("w")
        )
        (HOME / f"{job}.pid").write_text(str(process.pid))
    print(f"Submitted batch job {number}")


def keep(job: str, path: str) -> None:
    requeue = HOME / f"{job}.requeue"
    count = 0
    while True:
        subprocess.run(["bash", path], env={**os.environ, "SLURM_RESTART_COUNT": str(count)})
        if not requeue.exists():
            break
        requeue.unlink()
        count += 1
        (HOME / f"{job}.restarts").write_text(str(count))
    (HOME / f"{job}.ended").touch()


def srun(*words: str) -> None:
    command = list(words)
    while command[0].startswith("--"):
        option = command.pop(0)
        if option in ("--output", "--error"):
            command.pop(0)
    (HOME / f"{job_here()}.main").write_text(str(os.getpid()))
    os.execvp(command[0], command)


def job_here() -> str:
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}" if array else os.environ["SLURM_JOB_ID"]


def sacct(*_: str) -> None:
    print("JobID|State|NodeList")
    for path in HOME.glob("*.pid"):
        print(f"{path.stem}|{'COMPLETED' if (HOME / f'{path.stem}.ended').exists() else 'RUNNING'}|here")


def scancel(job: str, *_: str) -> None:
    for main in HOME.glob(f"{job}*.main"):
        try:
            os.kill(int(main.read_text()), signal.SIGKILL)
        except ProcessLookupError:
            continue


def scontrol(what: str, job: str) -> None:
    assert what == "requeue"
    (HOME / f"{job_here()}.requeue").touch()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--keep"]:
        keep(*sys.argv[2:])
    else:
        globals()[Path(sys.argv[0]).name](*sys.argv[1:])
