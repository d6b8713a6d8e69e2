"""Package discovery only.

Metadata, dependencies, extras, scripts and tool settings are in pyproject.toml.
"""

from setuptools import find_packages, setup

setup(
    packages=find_packages(include=["logwright", "logwright.*"]),
    py_modules=["pyspark_logwright"],  # Spark looks for this name at the top level
)
