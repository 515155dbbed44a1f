"""The subcommands of `supple`, one file each."""
