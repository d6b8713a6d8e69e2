"""The tests. `tests/README.md` says where to add which."""
