"""Clean many logs: the one order of operations, which the command line and Dagster show.

    hold -> recover -> plan -> roll -> build -> examine -> judge -> commit | discard ->
    quarantine -> retain

A sweep is a value, `model.SweepState`: one `LogWork` for each log. A stage takes a state and
returns the next, in which more is known of each log. An error of one log is its `failure`; it never
stops the others. Dagster runs the stages one by one, as ops. The command line plans, asks, and runs
build to commit as a stream (`clean.clean_logs`), so that what is built is committed while the next
logs are built.

`build` and `examine` run in an `executor.Executor`: in this process, or as Spark tasks. Only
`recover`, `roll`, `commit` and `retain` change a live log, in one process, under the locks.
"""
