"""Methods against plasticity loss, one file each."""
