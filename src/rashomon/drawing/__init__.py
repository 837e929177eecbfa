"""How figures and tables are shown: as SVG and HTML for the report and notebooks, as text for terminals."""
