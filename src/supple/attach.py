"""Attach: methods act inside the optimizer's own step, so that a training loop stays as it is.

Hooks of the optimizer call a method's ``after_backward`` before its step and ``after_step`` behind it: the same bits as
calling them by hand in that order.
"""

import contextlib
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from supple.fields import checked, shown
from supple.inputs import UNSEEN, check_batches, copied, first_two, inputs_of, num_examples_of
from supple.learner import Batch, Learner, NoExampleInput, check_optimizer, holds_any
from supple.methods.base import BETWEEN_STAGES, HOOKS, IN_A_STEP, Method, State, period_of, reads_recent
from supple.methods.chain import Chain
from supple.methods.recent_inputs import adopt_rooms_
from supple.processes import check_shards
from supple.saved import restore_
from supple.taps import InputTap, ReadInputs, is_inside_step
from supple.unchanged import undisturbed
from supple.units import Inputs
from supple.warn import warn

WAYS = {
    "after_backward": "edits gradients before each step",
    "after_step": "acts after each step",
    "end_stage": "acts at the end of a stage",
    "begin_stage": "acts before a stage",
}


def attach(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    methods: Method | Sequence[Method],
    *,
    example_input: Inputs | None = None,
    loss: Callable[[Tensor, Tensor], Tensor] | None = None,
    seed: int = 0,
    clip_norm: float | None = None,
    process_group: Any = None,
) -> "Plasticity":
    """Have one or several methods act, in this order, whenever the optimizer steps.

    Attach when the model is on its device and before the first step: the weights of now are the initial ones.

    example_input: a batch for methods that trace units; without it the first training forward's inputs are taken.
    loss: of outputs and targets, what backward() is called of; for methods that take gradients of their own (DASH).
    seed: of the methods' random stream; over several processes that of the first one.
    clip_norm: clip the total norm of this model's gradients to this, after the methods have edited them; what else the
        optimizer trains is not clipped. A loop that clips by itself calls ``plasticity.edit_gradients()`` before that;
        otherwise a penalty is added unclipped.
    process_group: of the DistributedDataParallel, if that is around a larger model than the one given.
    """
    listed = checked_methods(methods)
    if clip_norm is not None and checked(clip_norm, float, "attach's clip_norm") <= 0.0:
        raise ValueError(f"attach's clip_norm is the largest norm of the gradients, above 0; got {clip_norm}.")
    check_shards((model, optimizer), listed)
    learner = Learner(
        model, unwrapped(optimizer), example_input=example_input, loss=loss, seed=seed, process_group=process_group
    )
    for hook in learner.optimizer._optimizer_step_pre_hooks.values():
        other = getattr(hook, "__self__", None)
        if isinstance(other, Plasticity) and other.learner.model is learner.model:
            warn(
                f"methods are attached to this model and optimizer already ({', '.join(map(str, other.methods))}), and "
                "will act besides. Call plasticity.detach() before, or attach several methods as a list."
            )
    return Plasticity(learner, listed, clip_norm=clip_norm)


class Plasticity:
    """Methods at work in a training. A context manager: at its end they are detached.

    ``learner`` and ``states`` are what the methods see and remember.
    """

    def __init__(self, learner: Learner, methods: Sequence[Method], *, clip_norm: float | None = None) -> None:
        self.learner, self.methods, self.clip_norm = learner, methods, clip_norm
        self.monitor: Any = None  # a Monitor to step with the methods
        self.recent_data: Iterable[Batch] | None = None  # for methods with a period, instead of the latest inputs
        # What to do if a method traces the network, and no inputs were seen.
        self.no_example = f"{UNSEEN}. Give it one: attach(..., example_input=x)."
        self.num_steps = self.stage = 0
        self.num_acts = [0] * len(methods)
        self._states: list[State] | None = None
        self._saved: list[State] | None = None
        self._is_edited = self._is_skipped = self.is_evaluating = False
        self._stream: Tensor | None = None  # where the methods' draws for this step began
        self._recent: deque[Inputs] = deque()
        self._watched: tuple[nn.Module, ReadInputs] = learner.model, inputs_of
        if learner.example_input is not None:
            self.init_states()
        self._hook()

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The optimizer whose steps the methods act in; set it if the training makes a new one."""
        return self.learner.optimizer

    @optimizer.setter
    def optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        check_optimizer(optimizer, self.learner.model)
        self.pause()
        self.learner.optimizer = unwrapped(optimizer)
        self._hook()

    @property
    def states(self) -> list[State]:
        """What each method remembers."""
        if self._states is None:
            self.init_states()
        assert self._states is not None
        return self._states

    def init_states(self) -> None:
        """Create the methods' states, tracing units from the example if they need it."""
        states, stream = [], self.learner.generator.get_state()
        with undisturbed(), torch.autocast(self.learner.device.type, enabled=False):
            for method in self.methods:
                try:
                    states.append(method.init(self.learner))
                except NoExampleInput as error:
                    raise NoExampleInput(
                        f"{type(method).__name__} traces the network, and needs an example input; {self.no_example}"
                    ) from error
        self._states = states
        self._restore()
        if self._saved:  # the checkpoint's stream has these draws behind it
            self.learner.generator.set_state(stream)
        self._saved = None

    def edit_gradients(self) -> None:
        """Let the methods edit the gradients, then clip. The step does it, unless the loop did, once for each step."""
        if self._is_edited and self._stream is not None:  # for a step that was skipped
            self.learner.generator.set_state(self._stream)
        self._stream = self.learner.generator.get_state()
        self._edit()
        self._is_edited = True

    def _edit(self) -> None:
        for method, state in zip(self.methods, self.states, strict=True):
            method.after_backward(self.learner, state)
        if self.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.learner.own_parameters().values(), self.clip_norm)

    def end_stage(self, data: Iterable[Batch] = ()) -> None:
        """The stage is over; ``data`` are its batches, pairs of inputs and targets, for methods that read them."""
        self._act_between("end_stage", data)

    def begin_stage(self, data: Iterable[Batch] = ()) -> None:
        """The next stage begins; ``data`` are its batches. If the optimizer is made new, that comes before."""
        self.stage += 1
        self._act_between("begin_stage", data, self.stage)

    @contextlib.contextmanager
    def evaluation(self) -> Iterator[None]:
        """While open, the model is the network to evaluate, if a method trains another than it evaluates."""
        with contextlib.ExitStack() as stack:
            # Before the first forward the network to evaluate is the model itself, unless a checkpoint says otherwise.
            states = self.states if self._states or self._saved else ()
            for method, state in zip(self.methods, states, strict=False):
                stack.enter_context(method.evaluation(self.learner, state))
            stack.callback(setattr, self, "is_evaluating", self.is_evaluating)
            self.is_evaluating = True
            yield

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed training needs beside the model's and the optimizer's own."""
        return {
            "methods": [{"name": method.name, "fields": asdict(cast(Any, method))} for method in self.methods],
            "states": [dict(state) for state in self._states or self._saved or ()],
            **self.learner.state_dict(),
            "example_input": first_two(self.learner.example_input),
            "recent": list(self._recent),
            "num_steps": self.num_steps,
            "stage": self.stage,
            "num_acts": list(self.num_acts),
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Go on from what was saved with the same methods, with the settings of those attached."""
        theirs = ", ".join(entry["name"] for entry in saved.get("methods", ()))
        if theirs != (own := ", ".join(method.name for method in self.methods)):
            of = f"is of the methods {theirs}" if theirs else "is not from plasticity.state_dict()"
            raise ValueError(f"this checkpoint {of}, and those attached are {own}.")
        self.learner.load_state_dict(saved)
        self.num_steps, self.stage, self.num_acts = saved["num_steps"], saved["stage"], list(saved["num_acts"])
        if self.learner.example_input is None:
            self.learner.example_input = saved["example_input"]
        if self.monitor is not None:
            self.monitor.num_steps = self.num_steps
        self._saved, self._recent = list(saved["states"]), deque(saved["recent"])
        if not self._saved:  # the first forward was still to come
            self._states = None
        self._restore()

    def _restore(self) -> None:
        model = self.learner.model
        kinds = [dict(named).keys() for named in (model.named_modules(), model.named_parameters())]
        for state, saved in zip(self._states or (), self._saved or (), strict=False):
            adopt_rooms_(state, saved)
            restore_(state, saved, kinds=kinds, device=self.learner.device)

    def pause(self) -> None:
        """Do nothing in the optimizer's steps until ``optimizer`` is set."""
        while self._handles:
            self._handles.pop().remove()

    def detach(self) -> None:
        """Take all hooks off; warn of a method that never acted in all the steps."""
        is_attached = bool(self._handles)
        self.pause()
        self.learner.close()
        if self.monitor is not None:
            self.monitor.close()
        for method, num_acts in zip(self.methods, self.num_acts, strict=True):
            if is_attached and self.num_steps and method.acts_in() and not num_acts:
                why = f", and there were {self.num_steps:,}" if period_of(method) else ""
                warn(f"{type(method).__name__} has never acted: {self._how(method)}{why}.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *exception: object) -> None:
        if kind is not None:
            self.pause()  # an error comes with no warning of ours
        self.detach()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_handles": bool(self._handles)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _handles=[])
        if state["_handles"] and vars(self.learner.model):  # empty while a model that holds this is copied
            self._hook()

    def __str__(self) -> str:
        lines = []
        for method, num_acts in zip(self.methods, self.num_acts, strict=True):
            lines.append(f"{method}: {self._how(method)}; acted {num_acts} times in {self.num_steps} steps")
            try:
                served, left = method.reach(self.learner)
            except NoExampleInput:  # it traces units, and no input has been seen yet
                lines.append("  which layers: known after the first forward")
                continue
            lines.append(f"  acts on: {', '.join(served) or 'nothing'}")
            reasons: dict[str, list[str]] = {}
            for sentence in left:
                name, *reason = sentence.partition(": ") if sentence.startswith("'") else ("", sentence)
                reasons.setdefault("".join(reason), []).append(name)
            lines += [f"  leaves alone: {', '.join(names)}{reason}" for reason, names in reasons.items()]
        if any(method.acts_in("after_backward") for method in self.methods) and self.clip_norm is None:
            lines.append(
                "gradients are edited in optimizer.step(): clip with clip_norm=, or call edit_gradients() before"
            )
        return "\n".join(lines)

    def _how(self, method: Method) -> str:
        if every := period_of(method):
            return f"acts every {every:,} optimizer steps"
        own = [hook for hook in HOOKS if method.acts_in(hook)]
        calls = [f"plasticity.{hook}(data)" for hook in own if hook in BETWEEN_STAGES]
        way_out = f" (call {' and '.join(calls)}, or give it every=N)" if calls else ""
        return (" and ".join(WAYS[hook] for hook in own) or "does nothing") + way_out

    def _hook(self) -> None:
        model, read = self._watched
        self._handles = [
            self.optimizer.register_step_pre_hook(self._before_step),
            self.optimizer.register_step_post_hook(self._after_step),
            model.register_forward_pre_hook(InputTap(self.see_inputs, read), with_kwargs=True),
        ]

    def _before_step(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if is_inside_step(optimizer):
            return None
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if closure is not None:  # Lightning, LBFGS: the backward happens inside the step
            return (args[0],), {**kwargs, "closure": partial(self._edited, closure)}
        found_inf = getattr(optimizer, "found_inf", None)  # a GradScaler lets fused optimizers skip by themselves
        self._is_skipped = found_inf is not None and bool(found_inf.item())
        if not self._is_skipped and not self._is_edited:
            if getattr(optimizer, "grad_scale", None) is not None:  # which the GradScaler left to the fused step
                held = [parameter.grad for group in optimizer.param_groups for parameter in group["params"]]
                torch._foreach_div_([gradient for gradient in held if gradient is not None], optimizer.grad_scale)
                optimizer.grad_scale = None
            self._edit()
        return None

    def _edited(self, closure: Callable[[], Any]) -> Any:
        self._is_edited = False
        loss = closure()
        if isinstance(loss, Tensor):
            self.see_loss(loss)
        if not self._is_edited:
            self._edit()
        return loss

    def _after_step(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if is_inside_step(optimizer):
            return
        is_skipped, self._is_edited, self._is_skipped, self._stream = self._is_skipped, False, False, None
        if not is_skipped:
            self._act()
        self.learner.seen_loss = None  # that of the next step is another

    def _act(self) -> None:
        self.num_steps += 1
        for i, (method, state) in enumerate(zip(self.methods, self.states, strict=True)):
            method.after_step(self.learner, state)
            self.num_acts[i] += method.acts_in(*IN_A_STEP)
            if (every := period_of(method)) and self.num_steps % every == 0:
                data: Any = self.recent_data or [(inputs, None) for inputs in self._recent]
                if not data and reads_recent(method):
                    raise RuntimeError(
                        f"{type(method).__name__} acts on the latest inputs, and {UNSEEN}. Call "
                        "plasticity.see_inputs(x) before each optimizer.step()."
                    )
                method.end_stage(self.learner, state, data)
                method.begin_stage(self.learner, state, data, self.num_steps // every)
                self.num_acts[i] += 1
        if self.monitor is not None:
            self.monitor.step()

    def _act_between(self, hook: str, *stage: Any) -> None:
        check_batches(stage[0], "the data of a stage")
        for i, (method, state) in enumerate(zip(self.methods, self.states, strict=True)):
            if not period_of(method):
                getattr(method, hook)(self.learner, state, *stage)
                self.num_acts[i] += method.acts_in(hook)

    def watch_inputs(self, module: nn.Module, read: ReadInputs) -> None:
        """Take inputs from the training forwards of another module, as ``read`` makes them of its arguments."""
        self.pause()
        self._watched = module, read
        self._hook()

    def see_loss(self, loss: Tensor) -> None:
        """Take the loss of the step to come, for methods that weigh by it (CChain); a closure's is seen."""
        self.learner.see_loss(loss)

    def see_inputs(self, inputs: Inputs) -> None:
        """Take the inputs of a training forward. A hook calls it; call it yourself if the model's forward is not."""
        if not num_examples_of(inputs) or not (self._states or holds_any(self.optimizer, self.learner.model)):
            return  # torch.func has other tensors in place of the parameters
        if self._states is None:
            self.learner.example_input = inputs
            self.init_states()
            self.learner.example_input = first_two(inputs)
        reader: Any = next(filter(reads_recent, self.methods), None)
        if any(method.reads_inputs for method in self.methods):
            self.learner.see_inputs(inputs)
        elif reader is None or self.recent_data is not None:
            for tap in self._handles[2:]:
                tap.remove()
        if reader is None or self.recent_data is not None:
            return
        num_wanted = reader.num_examples
        # A copy, if they will be among the latest when the method next acts.
        if reader.every - self.num_steps % reader.every <= math.ceil(num_wanted / num_examples_of(inputs)):
            self._recent.append(copied(inputs))
        num_kept = sum(map(num_examples_of, self._recent))
        while self._recent and num_kept - num_examples_of(self._recent[0]) >= num_wanted:
            num_kept -= num_examples_of(self._recent.popleft())


def checked_methods(methods: object, way_out: str = "use convert(model, {activation})") -> tuple[Method, ...]:
    """The methods, or an error that says which of them cannot be attached, and what to do instead."""
    parts: Any = methods if isinstance(methods, Sequence) and not isinstance(methods, str) else (methods,)
    listed: tuple[Any, ...] = tuple(
        one for part in parts for one in (part.methods if isinstance(part, Chain) else (part,))
    )
    if not listed:
        raise ValueError("attach needs a method, e.g. attach(model, optimizer, L2Init()); got none.")
    for method in listed:
        if not isinstance(method, Method):
            raise TypeError(f"attach needs methods, e.g. L2Init(strength=1e-3); got {shown(method)}.")
        if not method.acts_in() and type(method).activation is not Method.activation:
            activation = method.activation()
            way = "build the model with {activation}" if hasattr(activation, "expansion") else way_out
            raise ValueError(
                f"{type(method).__name__} only swaps the activation, which no step does: "
                f"{way.format(activation=activation)}."
            )
    return Chain(methods=listed).methods  # which refuses what cannot go together


def unwrapped(optimizer: Any) -> Any:
    """The optimizer itself, without what accelerate, SAM (first_step, second_step) or timm's Lookahead puts on it."""
    held = (getattr(optimizer, name, None) for name in ("optimizer", "base_optimizer", "_base_optimizer"))
    return next((unwrapped(one) for one in held if isinstance(one, torch.optim.Optimizer)), optimizer)
