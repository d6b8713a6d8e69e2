"""The latest state of a topic: the newest committed record of each key, as rows, without a clean.

`plan` decides which offsets are read, and refuses points in the past that the log no longer holds;
`read` reads them. The first pass is a cleaning's (`logwright.keys`).
"""
