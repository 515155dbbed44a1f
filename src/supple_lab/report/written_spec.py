"""A spec as it was written: what can be told of it without knowing its parts, so that any version can tell."""

import hashlib
import json
from typing import Any

UNKNOWN = "an unknown method"
NUM_DIGITS = 16  # of a run's id, as RunSpec has it
CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))

Written = dict[str, Any]


def id_of(written: Written) -> str:
    """The id of the run: the hash of the spec's canonical JSON."""
    return hashlib.sha256(CANONICAL.encode(written).encode()).hexdigest()[:NUM_DIGITS]


def name_of(written: Written) -> str:
    """The run in words: its method, its seed, its id."""
    return f"{method_of(written)}, seed {written.get('seed', 'unknown')} ({id_of(written)})"


def method_of(written: Written) -> str:
    """The name of its method."""
    method = written.get("method")
    return str(method.get("kind", UNKNOWN)) if isinstance(method, dict) else UNKNOWN
