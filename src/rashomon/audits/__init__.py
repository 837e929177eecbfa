"""Which studies fit a model and its data, and what they say together of each method."""

from rashomon.audits.auditing import AuditSettings, run_audit, single_finding
from rashomon.audits.record import Audit, MethodVerdict, ReportContent, cautions_in

__all__ = [
    "Audit",
    "AuditSettings",
    "MethodVerdict",
    "ReportContent",
    "cautions_in",
    "run_audit",
    "single_finding",
]
