"""What an agent does, acting and learning: on a GPU each piece of it is one graph."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from supple_lab.run.capture import Graph
from supple_lab.run.recorder import Journal
from supple_lab.run.step import (
    TrainState,
    generators_of,
    put_back,
    tensors_of,
    weights_of,
    why_never_captured,
    without_trace,
)

OnTensors = Callable[..., Sequence[Tensor]]


class Captures:
    """Functions of tensors on the device, for an agent that has one training or several.

    On a CPU they are as they are. On a GPU they are graphs, one for each shape of their arguments; what they return is
    written over by the next call.
    """

    def __init__(self, *trainings: TrainState, also: Callable[[], list[Tensor]] = list) -> None:
        self.trainings, self.also = trainings, also  # what learning changes besides
        self.graphs: list[Graph] = []
        reasons = [why_never_captured(training) for training in trainings]
        self._why_never = [reason for reason in reasons if reason is not None]
        self._device = trainings[0].numerics.device

    @property
    def are_made(self) -> bool:
        return self._device.type == "cuda" and not self._why_never

    def acting(self, function: OnTensors) -> OnTensors:
        """It reads nothing of optimizers, which make their state in the first update: it may be captured before."""
        return self._captured(
            function, lambda: [part for each in self.trainings for part in weights_of(each.learner.model)]
        )

    def learning(self, function: OnTensors, *trainings: TrainState) -> OnTensors:
        """By these trainings alone, if they are given: another's optimizer may make its state later."""
        own = trainings or self.trainings
        return self._captured(function, lambda: [*self.also(), *(part for each in own for part in tensors_of(each))])

    def _captured(self, function: OnTensors, touches: Callable[[], list[Tensor]]) -> OnTensors:
        if not self.are_made:
            return function
        calls: dict[tuple[torch.Size, ...], tuple[list[Tensor], list[Tensor], Graph]] = {}
        generators = tuple(dict.fromkeys(one for training in self.trainings for one in generators_of(training)))

        def call(*arguments: Tensor) -> Sequence[Tensor]:
            shapes = tuple(argument.shape for argument in arguments)
            if shapes not in calls:
                copies, results = [argument.to(self._device, copy=True) for argument in arguments], list[Tensor]()

                def work() -> None:
                    results[:] = function(*copies)

                graph = Graph(work, touches=touches, generators=generators, restore=self._without_trace)
                calls[shapes] = copies, results, graph
                self.graphs.append(graph)
            copies, results, graph = calls[shapes]
            for copy, argument in zip(copies, arguments, strict=True):
                copy.copy_(argument)
            graph()
            return results

        return call

    @contextlib.contextmanager
    def _without_trace(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(put_back(self.also))
            for training in self.trainings:
                stack.enter_context(without_trace(training))
            yield

    def recheck_addresses(self) -> None:
        """After something that may have put other tensors in the place of those that graphs touch."""
        for graph in self.graphs:
            graph.recheck_addresses()

    @property
    def why_eager(self) -> list[str]:
        return [*self._why_never, *(graph.why_eager for graph in self.graphs if graph.why_eager is not None)]

    def note_why_eager(self, journal: Journal) -> None:
        for reason in self.why_eager:
            journal.note_not_captured("acting or learning, which draw other random numbers (masks), if any", reason)
