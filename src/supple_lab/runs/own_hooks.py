"""Own hooks: which of a loop's hooks a method makes use of."""

from supple.methods.base import Method


def has_own(method: Method, *hooks: str) -> bool:
    """Whether the method does something at one of these."""
    return any(getattr(type(method), hook) is not getattr(Method, hook) for hook in hooks)
