"""Criteria of predictions alone: risks, calibration, the IRM penalty."""
