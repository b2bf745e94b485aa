"""The bench of sluice: subjects, load, scenarios, report."""
