"""The command line: plans shown, asked for and carried out for one log directory, without
Dagster.
"""
