"""Hugging Face Trainer: L2 Init and the Monitor as a callback.

pip install transformers accelerate
python examples/transformers_callback.py
"""

import sys
import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from supple.integrations.transformers import PlasticityCallback
from supple.methods import L2Init


def sentences(num_sentences):
    """Random words; the label says whether the first is of the upper half."""
    words = torch.randint(100, (num_sentences, 12))
    return [{"input_ids": row, "labels": int(row[0] > 50)} for row in words]


def main(num_epochs=3, num_sentences=512):
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    model = BertForSequenceClassification(BertConfig(vocab_size=100, num_labels=2, **sizes))
    callback = PlasticityCallback(L2Init(strength=1e-4), monitor_every=50)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model,
            TrainingArguments(
                output_dir=folder,
                num_train_epochs=int(num_epochs),
                per_device_train_batch_size=32,
                learning_rate=1e-3,
                report_to=[],
                use_cpu=True,
            ),
            train_dataset=sentences(int(num_sentences)),
            callbacks=[callback],
        )
        callback.writer = trainer.log  # metrics to everything the Trainer reports to
        trainer.train()
    print(callback.monitor.report())
    return callback


if __name__ == "__main__":
    main(*sys.argv[1:])
