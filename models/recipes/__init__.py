"""Recipes that train Auricle's starter checkpoints from public speech."""
