"""One file per question. Importing the package registers every built-in study."""

from rashomon.experiments.context import Context
from rashomon.experiments.instance_search import Search
from rashomon.experiments.subject import DatasetSpec, Subject
from rashomon.experiments.testimony import Ask
from rashomon.studies.adversary import AdversarySweep
from rashomon.studies.agreement import Agreement
from rashomon.studies.agreement_and_truth import AgreementAndTruth
from rashomon.studies.asking import study
from rashomon.studies.attefa import Attefa
from rashomon.studies.base import ExplanationStudy, Finding, Judgement, Study, studies
from rashomon.studies.cartography import CartographyStudy
from rashomon.studies.curvature import Curvature
from rashomon.studies.erasure import Erasure
from rashomon.studies.guided_mlp import GuidedMlp
from rashomon.studies.instance_adversary import InstanceAdversary
from rashomon.studies.model_check import ModelChecked
from rashomon.studies.necessity import Necessity
from rashomon.studies.noise_ceiling import NoiseCeiling
from rashomon.studies.performance import Performance
from rashomon.studies.permutation import Permutation
from rashomon.studies.recovery import Recovery
from rashomon.studies.regularised_agreement import RegularisedAgreement
from rashomon.studies.seed_variance import SeedVariance
from rashomon.studies.simulation import Simulation

__all__ = [
    "AdversarySweep",
    "Agreement",
    "AgreementAndTruth",
    "Ask",
    "Attefa",
    "CartographyStudy",
    "Context",
    "Curvature",
    "DatasetSpec",
    "Erasure",
    "ExplanationStudy",
    "Finding",
    "GuidedMlp",
    "InstanceAdversary",
    "Judgement",
    "ModelChecked",
    "Necessity",
    "NoiseCeiling",
    "Performance",
    "Permutation",
    "Recovery",
    "RegularisedAgreement",
    "Search",
    "SeedVariance",
    "Simulation",
    "Study",
    "Subject",
    "studies",
    "study",
]
