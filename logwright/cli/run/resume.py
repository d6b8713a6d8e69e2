"""``logwright resume``: resume maintenance of paused partitions."""

from __future__ import annotations

from logwright.cli.request import Request
from logwright.cli.run.pause import show_pauses
from logwright.state.store import change_state, read_state


def run(request: Request, *, owner: str | None) -> None:
    """Run the command."""
    request.require_terminal()
    state = read_state(request.log_dir)
    lifted = {
        partition: [
            pause for pause in state[partition].pauses if owner is None or pause.owner == owner
        ]
        for partition in sorted(state)
        if not request.named or partition in request.named
    }
    said = [f"{one}: {pause.sentence}" for one, pauses in lifted.items() for pause in pauses]
    if request.dry_run:
        for line in said:
            request.output.text(line)
        return
    if said and not request.yes:
        for line in said:
            request.output.message(line)
        request.confirm(f"Remove {len(said)} pauses in {request.log_dir}?")
    changed = {
        one: change_state(request.log_dir, one, lambda now: now.without_pauses(owner))
        for one, pauses in lifted.items()
        if pauses
    }
    show_pauses(request, changed)
    request.output.text(f"Pauses removed: {len(said)}.")
