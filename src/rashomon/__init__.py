"""Rashomon."""
