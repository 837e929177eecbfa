"""What the papers published and concluded, to be set beside what is measured here."""
