"""CBP, ReDo and the Monitor on small configurations of transformers' language models."""

import copy
import warnings

import pytest
import torch
from torch import nn

import cut_off
from supple import Learner, Monitor
from supple.methods import CBP, ReDo
from supple.units import out_dim, trace_units

transformers = pytest.importorskip("transformers", reason="transformers is not installed (pip install .[integrations])")

NUM_HIDDEN = 24
IDS = torch.tensor([[3, 14, 15, 9, 2, 6, 5], [2, 7, 1, 8, 28, 18, 4]])
MASK = torch.tensor([[1] * 7, [1] * 4 + [0] * 3])
FOR_ALL = {"vocab_size": 50, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}


def gpt2():
    config = transformers.GPT2Config(n_embd=16, n_layer=2, n_head=2, n_inner=NUM_HIDDEN, n_positions=16, **FOR_ALL)
    return transformers.GPT2LMHeadModel(config)


def llama():
    config = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=NUM_HIDDEN, num_hidden_layers=2, num_attention_heads=2, **FOR_ALL
    )
    return transformers.LlamaForCausalLM(config)


def bert():
    config = transformers.BertConfig(
        hidden_size=16, intermediate_size=NUM_HIDDEN, num_hidden_layers=2, num_attention_heads=2, **FOR_ALL
    )
    return transformers.BertForSequenceClassification(config)


def t5(feed_forward="relu"):
    config = transformers.T5Config(
        d_model=16, d_kv=8, d_ff=NUM_HIDDEN, num_layers=2, num_heads=2, feed_forward_proj=feed_forward, **FOR_ALL
    )
    return transformers.T5ForConditionalGeneration(config)


T5_SITES = [f"encoder.block.{i}.layer.1.DenseReluDense" for i in (0, 1)]
T5_SITES += [f"decoder.block.{i}.layer.2.DenseReluDense" for i in (0, 1)]
TOKENS, PAIRS = {"input_ids": IDS, "attention_mask": MASK}, {"input_ids": IDS, "decoder_input_ids": IDS[:, :5]}
# For each model its inputs, and for each site its name, what feeds it and what reads it, as its authors' code says.
MODELS = {
    "GPT-2": (gpt2, TOKENS, [(f"transformer.h.{i}.mlp", "act", ["c_fc"], "c_proj") for i in (0, 1)]),
    "Llama": (
        llama,
        *(TOKENS, [(f"model.layers.{i}.mlp", "act_fn", ["gate_proj", "up_proj"], "down_proj") for i in (0, 1)]),
    ),
    "BERT": (
        bert,
        TOKENS,
        [
            *(
                (f"bert.encoder.layer.{i}", "intermediate.intermediate_act_fn", ["intermediate.dense"], "output.dense")
                for i in (0, 1)
            ),
            ("", "bert.pooler.activation", ["bert.pooler.dense"], "classifier"),
        ],
    ),
    "T5": (t5, PAIRS, [(block, "act", ["wi"], "wo") for block in T5_SITES]),
    "T5, gated": (lambda: t5("gated-gelu"), PAIRS, [(block, "act", ["wi_0", "wi_1"], "wo") for block in T5_SITES]),
}


class Logits(nn.Module):
    """A model of named inputs as one of one argument."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, inputs):
        return self.model(**inputs).logits


@pytest.fixture(scope="module", params=MODELS)
def traced(request):
    """A model in training, its inputs, its graph, and its sites by hand."""
    torch.manual_seed(0)
    build, inputs, sites = MODELS[request.param]
    model = build().train()
    before = copy.deepcopy(model)
    graph = trace_units(model, inputs)
    assert_same(model, before)
    return model, inputs, graph, sites


def assert_same(model, before):
    assert model.config.to_dict() == before.config.to_dict()
    assert all(part.training for part in model.modules())
    assert all(
        vars(part).keys() == vars(old).keys() for part, old in zip(model.modules(), before.modules(), strict=True)
    )
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    for (name, value), (_, old) in zip(model.named_parameters(), before.named_parameters(), strict=True):
        assert torch.equal(value, old), name


def test_every_feed_forward_is_a_layer_of_units_with_the_weights_that_its_code_says(traced):
    model, _, graph, sites = traced
    assert graph.skipped == ()
    assert len(graph) == len(sites)
    for layer, (block, site, producers, consumer) in zip(graph, sites, strict=True):
        *fed_by, read_by = (model.get_submodule(f"{block}.{name}".strip(".")) for name in (*producers, consumer))
        assert layer.activation is model.get_submodule(f"{block}.{site}".strip("."))
        assert [layer.producer, *layer.partners] == fed_by
        assert [at.layer for at in layer.consumers] == [read_by]
        assert layer.resettable
        assert layer.num_units == fed_by[0].weight.shape[out_dim(fed_by[0])]


def test_units_act_through_their_columns_alone_and_their_rows_on_them_alone(traced):
    model, inputs, graph, _ = traced
    twin = copy.deepcopy(model).double().eval()
    with torch.no_grad():
        for p in twin.parameters():
            p.copy_(0.3 * torch.randn_like(p) + (p.dim() == 1))  # weights of 0.02 leave no trace in the output
    layer = trace_units(twin, inputs)[[layer.name for layer in graph][-1]]
    cut_off.check_layer(Logits(twin), layer, inputs, unit=1)


@pytest.mark.parametrize(
    "method", [CBP(replacement_rate=0.05, maturity=1), ReDo(threshold=0.9)], ids=lambda method: method.name
)
def test_methods_renew_units_in_every_feed_forward_without_a_warning(traced, method):
    model, inputs, graph, sites = copy.deepcopy(traced)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    learner = Learner(model, optimizer, example_input=inputs)
    learner.units = graph
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state = method.init(learner)
    for _ in range(4):
        optimizer.zero_grad()
        model(**inputs).logits.square().mean().backward()
        optimizer.step()
        method.after_step(learner, state)
    method.end_stage(learner, state, [(inputs, None)])
    for _, (block, _, _, consumer) in zip(graph, sites, strict=True):
        layer = model.get_submodule(f"{block}.{consumer}".strip("."))
        columns = layer.weight if out_dim(layer) == 1 else layer.weight.t()
        num_zero = sum(not column.any() for column in columns)
        assert 0 < num_zero < len(columns), block


def test_monitor_reads_a_row_of_units_for_every_feed_forward(traced):
    model, inputs, graph, sites = copy.deepcopy(traced)
    for watched in (None, graph):
        monitor = Monitor(model, probe=inputs, every=1, sites=watched)
        model.zero_grad()
        model(**inputs).logits.square().mean().backward()
        monitor.step()
        monitor.close()
        for source in ("train", "probe"):
            rows = {row.name: row for row in monitor.readings[source].layers}
            fed = {
                f"{block}.{producers[0]}".strip("."): len(at.consumers[0].columns_US)
                for at, (block, _, producers, _) in zip(graph, sites, strict=True)
            }
            assert {name: row.units.num_units for name, row in rows.items() if row.units is not None} == fed
            assert all(row.dead_gradient is not None for name, row in rows.items() if name in fed)
        assert monitor.notes() == []


def test_forward_wrapped_for_mixed_precision_is_traced_and_stays_wrapped():
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)  # another test's Trainer may have set it
    model = accelerate.Accelerator(mixed_precision="bf16", cpu=True).prepare(gpt2())
    wrapped = vars(model)["forward"]
    assert [layer.resettable for layer in trace_units(model, TOKENS)] == [True, True]
    assert vars(model)["forward"] is wrapped
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
