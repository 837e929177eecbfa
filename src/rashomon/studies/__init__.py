"""One file per question. Importing the package registers every built-in study."""

from rashomon.studies.agreement import Agreement, agreement
from rashomon.studies.audit import AuditSettings, run_audit
from rashomon.studies.base import Audit, Finding, Study, studies
from rashomon.studies.context import Context
from rashomon.studies.erasure import Erasure
from rashomon.studies.necessity import Necessity
from rashomon.studies.noise_ceiling import NoiseCeiling
from rashomon.studies.recovery import Recovery
from rashomon.studies.subject import DatasetSpec, Subject
from rashomon.studies.witnesses import Ask

__all__ = [
    "Agreement",
    "Ask",
    "Audit",
    "AuditSettings",
    "Context",
    "DatasetSpec",
    "Erasure",
    "Finding",
    "Necessity",
    "NoiseCeiling",
    "Recovery",
    "Study",
    "Subject",
    "agreement",
    "run_audit",
    "studies",
]
