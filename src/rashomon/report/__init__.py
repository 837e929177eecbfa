"""The audit as a page to pass on, and as files for programs."""

from rashomon.report.audit import Report, audit
from rashomon.report.page import ReportFiles, render, save_report

__all__ = ["Report", "ReportFiles", "audit", "render", "save_report"]
