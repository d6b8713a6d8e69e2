"""What each command does: the function ``run`` of the module of its name."""
