"""``logwright resume``: resume maintenance of paused partitions."""

from __future__ import annotations

from logwright.cli.request import Request
from logwright.cli.run.pause import show_pauses
from logwright.cli.wording import counted
from logwright.state.store import change_state, read_state


def run(request: Request, *, owner: str | None) -> None:
    """Run the command."""
    request.require_terminal(versioned=True)
    lifted = {
        partition: [pause for pause in state.pauses if owner in {None, pause.owner}]
        for partition, state in sorted(read_state(request.place).items())
        if request.is_wanted(partition)
    }
    if not lifted:
        request.partitions()  # refuse names of which there is nothing
    lines = [f"{name}: {pause.sentence}" for name, pauses in lifted.items() for pause in pauses]
    if request.dry_run:
        for line in lines:
            request.output.text(line)
        if not lines:
            request.output.text("Nothing is paused.")
        return
    if lines:
        request.confirm(f"Remove {len(lines)} pauses in {request.place}?", lines)
    changed = {
        partition: change_state(request.place, partition, lambda state: state.without_pauses(owner))
        for partition, pauses in lifted.items()
        if pauses
    }
    show_pauses(request, changed)
    removed = f"{counted(len(lines), 'pause')} removed" if lines else "Nothing was paused"
    request.output.text(f"{removed}.")
