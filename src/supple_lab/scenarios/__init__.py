"""Scenarios: how data or labels change from stage to stage."""
