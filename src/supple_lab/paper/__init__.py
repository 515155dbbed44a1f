"""The paper: tables of settings, and a file a study."""
