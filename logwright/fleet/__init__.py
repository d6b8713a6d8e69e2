"""All logs of some log directories at one moment, for inventories, metrics and pages."""
