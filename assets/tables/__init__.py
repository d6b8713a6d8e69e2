"""The tables of the latest state of topics."""
