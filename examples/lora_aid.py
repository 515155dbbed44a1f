"""LoRA with AID: a nonlinear adapter, W x + B aid(A x), trained, saved and loaded.

pip install peft transformers
python examples/lora_aid.py
"""

import sys
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from transformers import BertConfig, BertForSequenceClassification

from supple import AID
from supple.integrations.peft import load_lora_with_aid, put_aid_in_lora


def base():
    """A small BERT with random weights; take your own with from_pretrained."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    return BertForSequenceClassification(BertConfig(vocab_size=100, num_labels=2, **sizes))


def main(num_steps=200):
    model = get_peft_model(base(), LoraConfig(r=8, lora_alpha=16, target_modules=["query", "value"]))
    put_aid_in_lora(model, AID(p=0.9))  # the one line
    model.print_trainable_parameters()

    words = torch.randint(100, (64, 12))
    labels = (words[:, 0] > 50).long()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    for step in range(num_steps):
        optimizer.zero_grad()
        loss = model(input_ids=words, labels=labels).loss
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}")

    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        model.save_pretrained(folder)
        loaded = load_lora_with_aid(base(), folder)  # PeftModel.from_pretrained would leave AID out, with a warning
        same = torch.equal(loaded.eval()(words).logits, model.eval()(words).logits)
    print(f"the loaded adapter gives the same: {same}")
    # It cannot be merged into W, which has no nonlinearity to hold it: model.merge_and_unload() says so.
    return same


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
