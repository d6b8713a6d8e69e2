"""The options of each command: declarations only, which import no kernel and no plan."""
