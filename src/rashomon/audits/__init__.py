"""Which studies fit a model and its data, and what they say together of each method."""

from rashomon.audits.auditing import AuditSettings, run_audit, single_finding
from rashomon.audits.record import Audit, MethodVerdict, ReportContent

__all__ = ["Audit", "AuditSettings", "MethodVerdict", "ReportContent", "run_audit", "single_finding"]
