"""The audit as a page to pass on, and as files for programs."""

from rashomon.report.page import ReportFiles, render, save_report
from rashomon.report.reporting import Report, audit

__all__ = ["Report", "ReportFiles", "audit", "render", "save_report"]
