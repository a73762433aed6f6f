"""From a run's counters to metrics, occupancy and predicted time."""
