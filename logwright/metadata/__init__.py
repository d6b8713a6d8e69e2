"""The cluster's own metadata, as a broker keeps it in ``__cluster_metadata-0`` (KIP-500)."""
