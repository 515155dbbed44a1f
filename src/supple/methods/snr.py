"""SNR, self-normalised resets (Farias & Jozefiak 2025): a unit is renewed when it is silent longer than it ever was."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from supple.activations import relative
from supple.kernels import renewal as kernels
from supple.learner import Batch, Learner
from supple.methods.base import State, at_least, decay_rate
from supple.methods.renewal import Moments, Renewing, pass_over_draws, renew_units_, take_own_steps_
from supple.units import UnitLayer
from supple.units.surgery import Entries, UnitSelection

SLOTS = 16  # one in so many units of a layer can be renewed in a step; the others wait


@dataclass(frozen=True, kw_only=True)
class SNR(Renewing):
    """Renews a unit after a silence that is longer than a share 1 - ``rejection_rate`` of its own silences.

    A unit fires in a step if its output is above 0 anywhere in the batch; its age is the number of steps since then.
    A unit older than its threshold is renewed: incoming weights from the layer's initial law, bias 0, outgoing weights
    0. Every ``every_stages`` stages, or every ``every`` steps, the threshold becomes that quantile of the silences
    since the last time if it is lower, else it doubles, within ``min_silence`` and ``max_silence``, where it starts. A
    unit that was never silent keeps its threshold: our choice. In a step at most a sixteenth of a layer is renewed.

    The authors count examples, 100 a step: 20,000 are 200 steps. ``reference``: as in their code, a unit is renewed at
    its threshold, and one that was never silent gets the lowest; they clear ``moments``.
    """

    name = "snr"
    rejection_rate: float = 0.08  # eta, the authors' on permuted MNIST
    max_silence: int = 200  # steps
    min_silence: int = 1  # steps
    every_stages: int = 16
    moments: Moments = "per_entry"
    reference: bool = False
    every: int | None = None  # optimizer steps between two updates of the thresholds; None: between stages

    def __post_init__(self) -> None:
        decay_rate(self.rejection_rate, "SNR.rejection_rate is the share of silences that are too long")
        if not 1 <= self.min_silence <= self.max_silence:
            raise ValueError(
                "SNR.min_silence and SNR.max_silence are steps, 1 <= min <= max; "
                f"got {self.min_silence} and {self.max_silence}."
            )
        at_least(1, self.every_stages, "SNR.every_stages is a number of stages between two updates of the thresholds")

    def begin(self, learner: Learner, layers: list[UnitLayer]) -> State:
        for layer in layers:
            known = relative(layer.activation)
            if known.bounded or not known.per_unit or hasattr(layer.activation, "expansion"):
                raise ValueError(
                    f"SNR sees from the sign of its output whether a unit fires, which that of "
                    f"'{layer.name}', {type(layer.activation).__name__}, does not tell. Use ReLU or its relatives."
                )
        learner.features  # noqa: B018  # watch the activations
        return {"stages": torch.zeros((), dtype=torch.int64, device=learner.device)}

    def first_record(self, layer: UnitLayer, device: torch.device) -> State:
        age_U = torch.zeros(layer.num_units, dtype=torch.int64, device=device)
        silences_UA = torch.zeros(layer.num_units, self.max_silence + 2, dtype=torch.int32, device=device)
        return {
            f"age.{layer.name}": age_U,
            f"threshold.{layer.name}": torch.full_like(age_U, self.max_silence),
            f"silences.{layer.name}": silences_UA,
        }

    @torch.no_grad()
    def after_step(self, learner: Learner, state: State) -> None:
        take_own_steps_(learner, state, self.moments)
        for layer in self.last_seen(learner):
            if f"age.{layer.name}" not in state:  # its weights were frozen until now
                state |= self.first_record(layer, learner.device)
            age_U, silences_UA = state[f"age.{layer.name}"], state[f"silences.{layer.name}"]
            fired_U = fired(learner, layer)
            silences_UA.scatter_add_(1, age_U[:, None], fired_U[:, None].to(silences_UA.dtype))
            age_U.copy_(torch.where(fired_U, 0, age_U + 1).clamp_(max=self.max_silence + 1))
            excess_U = age_U - state[f"threshold.{layer.name}"]
            excess_K, units_K = excess_U.topk(max(1, layer.num_units // SLOTS))
            chosen = UnitSelection(units_K, excess_K >= 0 if self.reference else excess_K > 0)
            if kernels.can_look(chosen.due_K) and not chosen.due_K.any():
                pass_over_draws(learner, layer, len(units_K))
                continue
            ended_K = units_K * silences_UA.shape[1] + age_U.index_select(0, units_K)
            silences_UA.view(-1).index_add_(0, ended_K, chosen.due_K.to(silences_UA.dtype))
            renew_units_(learner, state, layer, chosen, new_bias=lambda *_: 0.0, moments=self.moments)
            Entries(age_U, 0, chosen.units_K, chosen.due_K).write_(0)

    @torch.no_grad()
    def end_stage(self, learner: Learner, state: State, data: Iterable[Batch]) -> None:
        state["stages"] += 1
        if self.every is None and int(state["stages"]) % self.every_stages:
            return
        for key in [key for key in state if key.startswith("silences.")]:
            self.update_(state[f"threshold.{key.removeprefix('silences.')}"], state[key])

    def update_(self, threshold_U: Tensor, silences_UA: Tensor) -> None:
        """Set the thresholds by the silences since the last time, and forget these."""
        long_UA = silences_UA[:, 1:].double()  # an age of 0 is no silence
        total_U1 = long_UA.sum(dim=1, keepdim=True)
        # Less a rounding error: a share of exactly 1 - eta is enough.
        enough_U1 = (1.0 - self.rejection_rate) * total_U1 - 1e-9
        quantile_U = 1 + (long_UA.cumsum(dim=1) < enough_U1).sum(dim=1)
        moved_U = torch.where(quantile_U < threshold_U, quantile_U, 2 * threshold_U)
        moved_U = moved_U.clamp(self.min_silence, self.max_silence)
        is_kept_U = (total_U1[:, 0] == 0) & (not self.reference)
        threshold_U.copy_(torch.where(is_kept_U, threshold_U, moved_U))
        silences_UA.zero_()


def fired(learner: Learner, layer: UnitLayer) -> Tensor:
    """Which units gave anything above 0 in the last training forward, of any process."""
    h = learner.take_feature(layer.name)
    axes = [axis for axis in range(h.dim()) if axis != layer.unit_dim]
    share_U = ((h.amax(axes) if h.numel() else h.new_zeros(layer.num_units)) > 0).float()  # a batch can be empty
    learner.mean_over_ranks_(share_U)
    return share_U > 0
