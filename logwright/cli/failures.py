"""The errors of single partitions: the others continue, and the first gives the exit status."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from logwright.cli.log_lines import say_error
from logwright.cli.output import Output
from logwright.errors import LogwrightError
from logwright.format.names import TopicPartition


@dataclass(slots=True, kw_only=True)
class FailureLog:
    """Collects the errors of single partitions while the others continue.

    Attributes:
        failures: (partition, error), in the order in which they came.
        directories: the same of future and stray logs, by directory name.
        topics: the same of a topic as a whole.
        recovered: partitions that the command has recovered before its own work.
    """

    output: Output
    failures: list[tuple[TopicPartition, LogwrightError]] = field(default_factory=list)
    directories: list[tuple[str, LogwrightError]] = field(default_factory=list)
    topics: list[tuple[str, LogwrightError]] = field(default_factory=list)
    recovered: set[TopicPartition] = field(default_factory=set)

    def add(self, partition: TopicPartition, error: LogwrightError) -> None:
        """Record an error and report it. Effects: stderr, and stdout as JSON."""
        if partition in self.recovered:
            error = error.after_recovery()
        self.failures.append((partition, error.as_value()))
        say_error(error, of=str(partition), topic_partition=partition)
        self.output.error_object(error, topicPartition=str(partition))

    @contextmanager
    def of(self, partition: TopicPartition) -> Iterator[None]:
        """Record and report an error of a partition, instead of raising it. Effects: as `add`."""
        try:
            yield
        except LogwrightError as error:
            self.add(partition, error)

    def without(self, partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
        """Return the partitions without an error."""
        failed = {partition for partition, _ in self.failures}
        return tuple(partition for partition in partitions if partition not in failed)

    def add_directory(self, name: str, error: LogwrightError) -> None:
        """Record an error of a future or stray log and report it. Effects: as `add`."""
        self.directories.append((name, error.as_value()))
        say_error(error, of=name, directory=name)
        self.output.error_object(error, directory=name)

    def add_topic(self, topic: str, error: LogwrightError) -> None:
        """Record an error of a topic as a whole and report it. Effects: as `add`."""
        self.topics.append((topic, error.as_value()))
        say_error(error, of=topic, topic=topic)
        self.output.error_object(error, topic=topic)

    @property
    def exit_status(self) -> int:
        """Exit status of a partition's first error, else of a directory's, else of a topic's; 0
        without an error.
        """
        errors = [error for _, error in (*self.failures, *self.directories, *self.topics)]
        return errors[0].exit_status if errors else 0
