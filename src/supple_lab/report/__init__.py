"""Reports: what the store holds, as figures, tables and pages."""
