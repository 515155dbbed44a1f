"""One graph: a piece of a run's work, always on the same tensors, as one CUDA graph on a GPU and as it is elsewhere."""

from collections.abc import Callable

import torch
from torch import Tensor

from supple_lab.runs.captured import MOVED, generators_of, objection_to, places_of, tensors_of, without_trace
from supple_lab.runs.recording import ONE_CAPTURE, reason_of, record
from supple_lab.runs.step import Trainee


class OneGraph:
    """Work without arguments that reads and writes tensors of the trainee, and others that stay where they are.

    Rehearsing and capturing leave no trace in the trainee; what else the work writes must not matter before it is done.
    """

    def __init__(
        self, work: Callable[[], None], trainee: Trainee, *, on: Callable[[Trainee], list[Tensor]] = tensors_of
    ) -> None:
        self.work = work
        self.trainee, self.on = trainee, on
        self.on_gpu = trainee.numerics.device.type == "cuda"
        self.graph: torch.cuda.CUDAGraph | None = None
        self.places: list[int] = []
        self.obstacle = objection_to(trainee) if self.on_gpu else None  # why the work is not captured

    def __call__(self) -> None:
        if self.on_gpu and self.graph is None and self.obstacle is None:
            self.capture()
        if self.graph is None:
            self.work()
        else:
            self.graph.replay()

    def capture(self) -> None:
        """Make the graph, or note why it cannot be made."""
        try:
            with ONE_CAPTURE, without_trace(self.trainee):
                graph = record(self.work, generators=generators_of(self.trainee))
            self.graph = graph
        except RuntimeError as error:
            self.obstacle = reason_of(error)
        self.places = places_of(self.on(self.trainee))

    def look_again(self) -> None:
        """Do the work as it is from now on where other tensors have taken the place of the trainee's."""
        if self.graph is not None and self.places != places_of(self.on(self.trainee)):
            self.graph, self.obstacle = None, MOVED
