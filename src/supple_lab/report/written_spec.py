"""A spec as it was written: what can be told of it without knowing its parts, so that any version can tell."""

import hashlib
import json
from typing import Any

NUM_DIGITS = 16  # of a run's id, as RunSpec has it
CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))

Written = dict[str, Any]


def id_of(written: Written) -> str:
    """The id of the run: the hash of the spec's canonical JSON."""
    return hashlib.sha256(CANONICAL.encode(written).encode()).hexdigest()[:NUM_DIGITS]


def name_of(written: Written) -> str:
    """The run in words: its method, its seed, its id."""
    method = written.get("method")
    kind = method.get("kind", "an unknown method") if isinstance(method, dict) else "an unknown method"
    return f"{kind}, seed {written.get('seed', 'unknown')} ({id_of(written)})"
