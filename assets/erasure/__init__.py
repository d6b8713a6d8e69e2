"""Erasure requests, their deadlines, and the work of the job `erase`."""
