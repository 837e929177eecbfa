"""Which studies fit a model and its data, and what they say together of each method."""

from rashomon.audits.auditing import AuditSettings, run_audit
from rashomon.audits.record import Audit, Judgement, MethodVerdict

__all__ = ["Audit", "AuditSettings", "Judgement", "MethodVerdict", "run_audit"]
