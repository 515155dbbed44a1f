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
    rooms = rooms_like(learner.example_input, num_examples, learner.device)
    return {"num_seen": torch.zeros((), dtype=torch.int64, device=learner.device), **rooms}


def rooms_like(inputs: Inputs, num_examples: int, device: torch.device) -> State:
    return {
        f"{KEY}{name}": torch.zeros(num_examples, *x.shape[1:], dtype=x.dtype, device=device)
        for name, x in tensors_of(inputs).items()
    }


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
    fit_rooms_(state, inputs, who)
    num_rooms = len(next(iter(rooms_in(state).values())))
    num_kept = min(num_examples_of(inputs), num_rooms)
    at_K = (state["num_seen"] + torch.arange(num_kept, device=state["num_seen"].device)) % num_rooms
    for name, x in tensors_of(inputs).items():
        room = state[f"{KEY}{name}"]
        room.index_copy_(0, at_K, x[-num_kept:].detach().to(room.device, room.dtype))
    state["num_seen"] += num_kept


def rooms_in(state: State) -> State:
    return {key: room for key, room in state.items() if key.startswith(KEY)}


def fit_rooms_(state: State, inputs: Inputs, who: str) -> None:
    """Have room for such inputs if these are the first; refuse them if others have been kept."""
    rooms, found = rooms_in(state), {f"{KEY}{name}": x for name, x in tensors_of(inputs).items()}
    shapes, now = ({key: tuple(x.shape[1:]) for key, x in held.items()} for held in (rooms, found))
    if shapes == now:
        return
    if int(state["num_seen"]):  # a look at a value, but never in a training whose inputs are all alike
        key = min(key for key in shapes.keys() | now.keys() if shapes.get(key) != now.get(key))
        raise ValueError(
            f"{who} keeps examples of one shape; argument '{key.removeprefix(KEY)}' had {shapes.get(key)} in the first "
            f"training forward, now {now.get(key)}. Train with the same arguments in the same shapes, such as "
            "sequences padded to one length."
        )
    # The example input was another: without targets, or shorter.
    for key in rooms:
        del state[key]
    room = next(iter(rooms.values()))
    state |= rooms_like(inputs, len(room), room.device)


def kept(learner: Learner, state: State, who: str) -> tuple[Inputs, Tensor]:
    """The examples in their places, as the inputs of the latest training forward, and which places are filled."""
    inputs = learner.example_input if learner.inputs is None else learner.inputs
    assert inputs is not None
    fit_rooms_(state, inputs, who)
    names = {id(x): name for name, x in tensors_of(inputs).items()}
    examples = mapped(lambda x: state[f"{KEY}{names[id(x)]}"], inputs)
    rooms = next(iter(tensors_of(examples).values()))
    return examples, torch.arange(len(rooms), device=rooms.device) < state["num_seen"]


def adopt_rooms_(state: State, saved: State) -> None:
    """Have rooms of the shapes that a checkpoint has, if any, which need not be those of the example input."""
    rooms, others = rooms_in(state), rooms_in(saved)
    if rooms and {len(room) for room in rooms.values()} == {len(room) for room in others.values()}:
        for key in rooms:
            del state[key]
        state |= {key: torch.zeros_like(room, device=state["num_seen"].device) for key, room in others.items()}
