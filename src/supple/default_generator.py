"""Torch's default generators: all threads share them, so whoever sets them back has them alone.

A thread that sets them back while another draws from them takes back what that one drew: the other's network would get
the same numbers twice. So whoever draws a network from them, sets them back or asks whether they moved does so inside
`kept_default_generators`, or holds its lock: the laboratory's runs, metrics, methods and tracing. Masks, drawn at every
step, have streams of their own (mask_stream). Conversions and adapters, which belong to one training, set back without
it.
"""

import contextlib
import threading
from collections.abc import Iterable, Iterator

import torch

ONE_AT_A_TIME = threading.RLock()  # reentrant: what draws a network may look at it before it is done


@contextlib.contextmanager
def kept_default_generators(gpus: Iterable[int] = ()) -> Iterator[None]:
    """While open, those of the CPU and of these GPUs are this thread's alone; afterwards they are as they were."""
    with ONE_AT_A_TIME, torch.random.fork_rng(devices=sorted(gpus)):
        yield
