"""Runs of upstream's training with its own loader and with Headwater's: for the tests here and for benches/integrations.py."""
