"""Capture: work on a GPU, rehearsed and captured as one CUDA graph, and what a capture that fails must not spoil."""

import contextlib
import gc
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor

Pool = tuple[int, int]  # torch's name for a graph's memory

NUM_REHEARSALS = 3  # as torch's documentation advises: libraries choose their algorithms and workspaces in the first
ONE_CAPTURE = threading.Lock()  # runs may share a GPU, each in a thread of its own
MAX_THREADS = 32  # that capture in one process: so many streams of a priority does torch have
MOVED = "something it reads or writes has moved in memory since it was captured"


class Graph:
    """Work without arguments, captured at its first call and replayed from then on; if it cannot be, done eagerly.

    The work reads and writes ``touches()``, which stay in place, and draws from the generators. ``restore`` undoes what
    rehearsing and capturing do; what else the work writes must not matter before it is done.
    """

    def __init__(
        self,
        work: Callable[[], None],
        *,
        touches: Callable[[], Iterable[Tensor]],
        generators: Sequence[torch.Generator] = (),
        restore: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
        rehearsal: Callable[[], None] | None = None,
        pool: Pool | None = None,
    ) -> None:
        self.work, self.touches, self.generators, self.restore = work, touches, generators, restore
        self.rehearsal, self.pool = rehearsal, pool
        self.graph: torch.cuda.CUDAGraph | None = None
        self.why_eager: str | None = None
        self._addresses: list[int] = []

    def __call__(self) -> None:
        if self.graph is None and self.why_eager is None:
            self.capture()
        if self.graph is None:
            self.work()
        else:
            self.graph.replay()

    def capture(self) -> None:
        """Make the graph, or note why it cannot be made."""
        try:
            with ONE_CAPTURE, self.restore():
                graph = record(self.work, rehearsal=self.rehearsal, generators=self.generators, pool=self.pool)
            self.graph, self.pool = graph, graph.pool()
        except RuntimeError as error:
            self.why_eager = reason_of(error)
        self._addresses = addresses_of(self.touches())

    def recheck_addresses(self) -> None:
        """Work eagerly from now on if other tensors have taken the place of those it touches."""
        if self.graph is not None and self._addresses != addresses_of(self.touches()):
            self.graph, self.why_eager = None, MOVED


def addresses_of(tensors: Iterable[Tensor]) -> list[int]:
    return [tensor.data_ptr() for tensor in tensors]


class ThreadGraphs(threading.local):
    """A thread's own stream for captures, and the graphs it recorded there that may be replayed."""

    def __init__(self) -> None:
        self.stream: torch.cuda.Stream | None = None
        self.graphs: list[torch.cuda.CUDAGraph] = []


OWN = ThreadGraphs()


def capture_stream() -> torch.cuda.Stream:
    """This thread's stream for captures alone: what another run launched on it would become part of the graph.

    One for each thread, because cuBLAS has one workspace for each stream that its caller works on, and all threads'
    backward passes have the same caller, autograd's own thread: graphs captured on one stream write the same memory
    when they are replayed, and replayed at once they spoil each other's products. Of another priority than runs' own
    streams, because torch hands its 32 streams of a priority out in turn.
    """
    if OWN.stream is None:
        OWN.stream = torch.cuda.Stream(priority=-1)
    return OWN.stream


@contextlib.contextmanager
def graphs_that_end_together() -> Iterator[None]:
    """What this thread records while open is kept, replayed or not, and ends here at the latest."""
    try:
        yield
    finally:
        end_graphs()


def end_graphs() -> None:
    """End all that this thread has recorded; no holder uses one of these graphs or its pool any more.

    With one graph torch 2.12 and later free the cuBLAS workspaces of its capture stream, which the other graphs of the
    stream go on writing to. So none ends without the others. What is recorded next takes a pool of its own: torch has
    none any more under the name of one whose graphs have all ended.
    """
    if not OWN.graphs:
        return
    with ONE_CAPTURE, contextlib.suppress(RuntimeError):  # of a GPU that has given up this process
        torch.cuda.current_stream().synchronize()
        reset_all()
    OWN.graphs = []


def reset_all() -> None:
    """End this thread's graphs, none of which is being replayed; hold ONE_CAPTURE."""
    while OWN.graphs:
        OWN.graphs.pop().reset()


def record(
    work: Callable[[], None],
    *,
    rehearsal: Callable[[], None] | None = None,
    generators: Sequence[torch.Generator] = (),
    pool: Pool | None = None,
) -> torch.cuda.CUDAGraph:
    """The graph of the work, which draws from the generators, in the pool's memory or its own; hold ONE_CAPTURE.

    The rehearsal is the work, or as much of it as shows all that it does.
    """
    stream, is_first = capture_stream(), not OWN.graphs
    rehearse(work if rehearsal is None else rehearsal, stream)
    with no_collection(), torch.cuda.stream(stream):
        try:
            return capture(work, generators, pool=torch.cuda.graph_pool_handle() if pool is None else pool)
        except BaseException:
            if is_first:  # no other graph shares its workspaces: the memory that it took is needed for eager work
                reset_all()
            raise


def rehearse(work: Callable[[], None], stream: torch.cuda.Stream) -> None:
    current = torch.cuda.current_stream()
    stream.wait_stream(current)
    try:
        with torch.cuda.stream(stream):
            for _ in range(NUM_REHEARSALS):
                work()
    finally:  # what was changed is put back on the current stream: after the last kernel, even if the work failed
        current.wait_stream(stream)


def capture(work: Callable[[], None], generators: Sequence[torch.Generator], *, pool: Pool) -> torch.cuda.CUDAGraph:
    """The graph of the work, captured on the current stream.

    Not by torch.cuda.graph: if a capture cannot be ended, that one leaves its stream the current one.
    """
    graph = registered(generators)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    graph.capture_begin(pool=cast(Any, pool), capture_error_mode="thread_local")
    OWN.graphs.append(graph)  # whatever comes of it
    try:
        work()
    finally:
        try:
            graph.capture_end()
        except RuntimeError:
            if not has_ended(graph):
                mend(generators, pool)
            raise
    return graph


def has_ended(graph: torch.cuda.CUDAGraph) -> bool:
    """Whether its capture has: then its memory is in order, even if the graph could not be made ready for replay."""
    try:
        graph.pool()
    except RuntimeError:
        return False
    return True


def registered(generators: Sequence[torch.Generator]) -> torch.cuda.CUDAGraph:
    """An empty graph that may draw from the generators."""
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    return graph


def mend(generators: Sequence[torch.Generator], pool: Pool) -> None:
    """Make good what torch leaves open if a capture cannot be ended, or the process' later captures suffer.

    Its allocator goes on setting memory aside for the pool (from torch 2.13 on it does not, and says so), and keeps the
    failed graph's claim on it; others' claims on a shared pool stand. Up to 2.12 all generators of the graph, the
    default one among them, stay as they are in a capture, and refuse to draw: one that ends well sets them right.
    Nothing may be captured into the pool any more: the allocator of host memory cannot be told.
    """
    device = torch.cuda.current_device()
    names = ("_cuda_endAllocateToPool", "_cuda_endAllocateCurrentStreamToPool")  # the second in torch 2.6
    end = next(getattr(torch._C, name) for name in names if hasattr(torch._C, name))
    with contextlib.suppress(RuntimeError):
        end(device, pool)
    torch._C._cuda_releasePool(device, pool)
    graph, scrap = registered(generators), torch.zeros((), device="cuda")
    graph.capture_begin(capture_error_mode="thread_local")
    scrap.zero_()
    graph.capture_end()
    OWN.graphs.append(graph)


def reason_of(error: BaseException) -> str:
    """The error that came first, in a line: those that follow say no more than that the capture has failed."""
    while error.__context__ is not None and not error.__suppress_context__:
        error = error.__context__
    return f"{type(error).__name__}: {error}".splitlines()[0]


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """While open, no garbage is collected: what a collection frees on the GPU could end a capture."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
