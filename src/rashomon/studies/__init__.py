"""One file per question. Importing the package registers every built-in study."""

from rashomon.studies.adversary import AdversarySweep
from rashomon.studies.agreement import Agreement, agreement
from rashomon.studies.attefa import Attefa
from rashomon.studies.audit import AuditSettings, run_audit
from rashomon.studies.base import Audit, Finding, Study, studies
from rashomon.studies.context import Context
from rashomon.studies.erasure import Erasure
from rashomon.studies.guided_mlp import GuidedMlp
from rashomon.studies.instance_adversary import InstanceAdversary, Search
from rashomon.studies.necessity import Necessity
from rashomon.studies.noise_ceiling import NoiseCeiling
from rashomon.studies.permutation import Permutation
from rashomon.studies.recovery import Recovery
from rashomon.studies.seed_variance import SeedVariance
from rashomon.studies.subject import DatasetSpec, Subject
from rashomon.studies.witnesses import Ask

__all__ = [
    "AdversarySweep",
    "Agreement",
    "Ask",
    "Attefa",
    "Audit",
    "AuditSettings",
    "Context",
    "DatasetSpec",
    "Erasure",
    "Finding",
    "GuidedMlp",
    "InstanceAdversary",
    "Necessity",
    "NoiseCeiling",
    "Permutation",
    "Recovery",
    "Search",
    "SeedVariance",
    "Study",
    "Subject",
    "agreement",
    "run_audit",
    "studies",
]
