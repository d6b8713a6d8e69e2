"""The command line: show plans for one log directory, ask, and carry them out; no Dagster."""
