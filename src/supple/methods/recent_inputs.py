"""Recent inputs: the latest examples that a network was trained on, kept in a method's state."""

import torch
from torch import Tensor

from supple.inputs import UNSEEN, mapped, num_examples_of
from supple.learner import Learner, NoExampleInput
from supple.methods.base import State
from supple.units import Inputs, arguments_of

KEY = "input."


def room_for(learner: Learner, num_examples: int) -> State:
    """Empty room for so many examples, shaped as the learner's example input; what is trained on is seen from now."""
    if learner.example_input is None:
        raise NoExampleInput(
            "this method keeps the latest inputs, and needs one to know their shape; "
            "pass a batch, e.g. Learner(model, optimizer, example_input=x)."
        )
    learner.watch_inputs()
    rooms = {
        f"{KEY}{name}": torch.zeros(num_examples, *x.shape[1:], dtype=x.dtype, device=learner.device)
        for name, x in tensors_of(learner.example_input).items()
    }
    return {"num_seen": torch.zeros((), dtype=torch.int64, device=learner.device), **rooms}


def tensors_of(inputs: Inputs) -> dict[str, Tensor]:
    """The tensors among the inputs, by the name or place of their argument; all hold a row for each example."""
    args, kwargs = arguments_of(inputs)
    named = {**{str(place): x for place, x in enumerate(args)}, **kwargs}
    found = {name: x for name, x in named.items() if isinstance(x, Tensor)}
    if len({len(x) if x.dim() else None for x in found.values()}) != 1:
        raise ValueError(
            "this method keeps the latest examples, and needs inputs whose tensors have a row for each; got the shapes "
            f"{', '.join(str(tuple(x.shape)) for x in found.values()) or 'of none'}."
        )
    return found


def keep_(learner: Learner, state: State, who: str) -> None:
    """Put what the network was just trained on in place of the oldest examples."""
    inputs = learner.inputs
    if inputs is None:
        raise RuntimeError(
            f"{who} reads what the model is trained on, and {UNSEEN}. Call plasticity.see_inputs(x) before each "
            "optimizer.step(), or learner.see_inputs(x) in a loop that calls the hooks itself."
        )
    found = tensors_of(inputs)
    num_rooms = len(next(room for key, room in state.items() if key.startswith(KEY)))
    num_kept = min(num_examples_of(inputs), num_rooms)
    at_K = (state["num_seen"] + torch.arange(num_kept, device=state["num_seen"].device)) % num_rooms
    for name, x in found.items():
        room = state.get(f"{KEY}{name}")
        if room is None or room.shape[1:] != x.shape[1:]:
            known = None if room is None else tuple(room.shape[1:])
            raise ValueError(
                f"{who} keeps examples of one shape; argument '{name}' had {known} at first, now {tuple(x.shape[1:])}."
            )
        room.index_copy_(0, at_K, x[-num_kept:].detach().to(room.device, room.dtype))
    state["num_seen"] += num_kept


def kept(learner: Learner, state: State) -> tuple[Inputs, Tensor]:
    """The examples in their places, as inputs, and which of the places are filled."""
    assert learner.example_input is not None
    names = {id(x): name for name, x in tensors_of(learner.example_input).items()}
    inputs = mapped(lambda x: state[f"{KEY}{names[id(x)]}"], learner.example_input)
    rooms = next(iter(tensors_of(inputs).values()))
    return inputs, torch.arange(len(rooms), device=rooms.device) < state["num_seen"]
