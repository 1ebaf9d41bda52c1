"""What every request goes through: the open index, one version of it for each request, the memory for answers."""
