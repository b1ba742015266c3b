# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys that the chart of the GPU operator reads, and what is wrong with values for it. Pure.

helm itself takes any key, and what the chart does not read has no effect and no error.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Tuple

from ...core.nearest import nearest
from ...core.resource import NodeError

#: The release of the chart that the keys are of (NVIDIA/gpu-operator 10ee5b363: values.yaml, what the templates read,
#: and values.yaml of its chart node-feature-discovery 0.19.0).
VERSION = "v26.7.0"

# A mapping and the keys in it. "?": true or false; "*": anything that is deeper; without a mark: one value.
_TEXT = """
-: extraObjects* fullnameOverride nameOverride
ccManager: args* defaultMode enabled? env* hostNetwork? image imagePullPolicy imagePullSecrets* repository
    resources* version
cdi: enabled? nriPluginEnabled?
clusterPolicy: deployCR?
daemonsets: annotations* labels* priorityClassName rollingUpdate* tolerations* updateStrategy
dcgm: args* enabled? env* hostNetwork? image imagePullPolicy imagePullSecrets* repository resources* version
dcgmExporter: annotations* args* enablePodLabels? enablePodUID? enabled? env* hostNetwork? hostPID?
    hpcJobMapping* image imagePullPolicy imagePullSecrets* podLabelAllowlistRegex repository resources* version
dcgmExporter.config: create? data name
dcgmExporter.service: internalTrafficPolicy
dcgmExporter.serviceMonitor: additionalLabels* enabled? honorLabels? interval relabelings* scrapeTimeout
devicePlugin: args* enabled? env* hostNetwork? image imagePullPolicy imagePullSecrets* repository resources*
    version
devicePlugin.config: create? data* default name
devicePlugin.mps: root
draDriver: featureGates* image imagePullPolicy imagePullSecrets* repository version
draDriver.computeDomains: controller* enabled? kubeletPlugin*
draDriver.gpus: kubeletPlugin*
driver: args* enabled? env* hostNetwork? image imagePullPolicy imagePullSecrets* kernelModuleType livenessProbe*
    readinessProbe* repository resources* secretEnv startupProbe* usePrecompiled? version
driver.certConfig: name
driver.kernelModuleConfig: name
driver.licensingConfig: configMapName nlsEnabled? secretName
driver.manager: env* image imagePullPolicy repository version
driver.nvidiaDriverCRD: deployDefaultCR? driverType enabled? nodeSelector*
driver.rdma: enabled? useHostMofed?
driver.repoConfig: configMapName
driver.upgradePolicy: autoUpgrade? maxParallelUpgrades maxUnavailable
driver.upgradePolicy.drain: deleteEmptyDir? enable? force? podSelector timeoutSeconds
driver.upgradePolicy.gpuPodDeletion: deleteEmptyDir? force? timeoutSeconds
driver.upgradePolicy.waitForCompletion: podSelector timeoutSeconds
driver.virtualTopology: config
gdrcopy: args* enabled? env* image imagePullPolicy imagePullSecrets* repository version
gds: args* enabled? env* image imagePullPolicy imagePullSecrets* repository version
gfd: args* enabled? env* hostNetwork? image imagePullPolicy imagePullSecrets* repository resources* version
gpuCluster: deployCR?
hostPaths: driverInstallDir kubeletRootDir rootFS
kataManager: args* config* enabled? env* hostNetwork? image imagePullPolicy imagePullSecrets* repository
    resources* version
kataSandboxDevicePlugin: args* enabled? env* hostNetwork? image imagePullPolicy imagePullSecrets* repository
    resources* version
mig: strategy
migManager: args* enabled? env* hostNetwork? image imagePullPolicy imagePullSecrets* repository resources*
    version
migManager.config: create? data* default name
migManager.gpuClientsConfig: name
nfd: enabled? nodefeaturerules?
node-feature-discovery: checksumValuesOnly? featureGates* fullnameOverride imagePullSecrets* nameOverride
    namespaceOverride postDeleteCleanup? priorityClassName
node-feature-discovery.gc: affinity* annotations* deploymentAnnotations* dnsPolicy enable? extraArgs* extraEnvs*
    hostNetwork? hostUsers* initContainers* interval labels* livenessProbe* networkPolicy* nodeSelector*
    podDisruptionBudget* podSecurityContext* port rbac* readinessProbe* replicaCount resources*
    revisionHistoryLimit serviceAccount* tolerations*
node-feature-discovery.global: imagePullSecrets*
node-feature-discovery.image: pullPolicy repository tag
node-feature-discovery.master: affinity* annotations* config* denyLabelNs* deploymentAnnotations* dnsPolicy
    enable? enableTaints? extraArgs* extraEnvs* extraLabelNs* hostNetwork? hostUsers* initContainers* instance
    labels* livenessProbe* networkPolicy* nfdApiParallelism nodeSelector* podDisruptionBudget*
    podSecurityContext* port rbac* readinessProbe* replicaCount resources* resyncPeriod revisionHistoryLimit
    securityContext* serviceAccount* startupProbe* tolerations*
node-feature-discovery.prometheus: enable? labels* scrapeInterval
node-feature-discovery.topologyUpdater: affinity* annotations* config* createCRDs? daemonsetAnnotations*
    dnsPolicy enable? extraArgs* extraEnvs* hostNetwork? hostUsers* initContainers* kubeletConfigPath
    kubeletPodResourcesSockPath kubeletStateDir labels* livenessProbe* networkPolicy* nodeSelector*
    podSecurityContext* podSetFingerprint? port rbac* readinessProbe* resources* revisionHistoryLimit
    securityContext* serviceAccount* tolerations* updateInterval watchNamespace
node-feature-discovery.worker: affinity* annotations* config* daemonsetAnnotations* dnsPolicy enable? extraArgs*
    extraEnvs* hostNetwork? hostUsers* initContainers* labels* livenessProbe* mountUsrSrc? networkPolicy*
    nodeSelector* ownerRefs* podSecurityContext* port priorityClassName rbac* readinessProbe* resources*
    revisionHistoryLimit securityContext* serviceAccount* tolerations* updateStrategy*
nodeStatusExporter: args* enabled? env* hostNetwork? image imagePullPolicy imagePullSecrets* repository
    resources* version
operator: affinity* annotations* cleanupCRD? defaultGPUMode env* image imagePullPolicy imagePullSecrets* labels*
    nodeSelector* priorityClassName repository resources* runtimeClass tolerations* upgradeCRD?
    use_ocp_driver_toolkit? version
operator.logging: develMode? level timeEncoding
operator.metrics: serviceMonitor*
platform: openshift?
psa: enabled?
sandboxDevicePlugin: args* enabled? env* hostNetwork? image imagePullPolicy imagePullSecrets* repository
    resources* version
sandboxWorkloads: defaultWorkload enabled? mode
toolkit: enabled? env* hostNetwork? image imagePullPolicy imagePullSecrets* installDir repository resources*
    version
validator: args* env* hostNetwork? image imagePullPolicy imagePullSecrets* repository resources* version
validator.cuda: env*
validator.driver: env*
validator.plugin: env*
validator.toolkit: env*
validator.vfioPCI: env*
validator.vgpuDevices: env*
validator.vgpuManager: env*
vfioManager: args* enabled? env* hostNetwork? image imagePullPolicy imagePullSecrets* repository resources*
    version
vfioManager.driverManager: env* image imagePullPolicy repository version
vgpuDeviceManager: args* enabled? env* hostNetwork? image imagePullPolicy imagePullSecrets* repository
    resources* version
vgpuDeviceManager.config: default name
vgpuManager: args* enabled? env* hostNetwork? image imagePullPolicy imagePullSecrets* repository resources*
    version
vgpuManager.driverManager: env* image imagePullPolicy repository version
vgpuManager.kernelModuleConfig: name
"""


def _read() -> Dict[str, Dict[str, str]]:
    found: Dict[str, Dict[str, str]] = {}
    words: Dict[str, str] = {}
    for word in _TEXT.split():
        if word.endswith(":"):
            words = found.setdefault(word[:-1].replace("-", "") if word == "-:" else word[:-1], {})
        else:
            words[word.rstrip("?*")] = word[len(word.rstrip("?*")) :]
    for path in list(found):
        above, dummy, last = path.rpartition(".")
        if path:
            found.setdefault(above, {})[last] = "{}"
    return found


_KEYS = _read()


def wrong(values: Mapping[str, Any], path: str = "") -> Iterator[NodeError]:
    """A refusal for each key that the chart does not read, and each value that it would misread."""
    known = _KEYS[path]
    for key, value in values.items():
        here = "{0}.{1}".format(path, key) if path else str(key)
        kind = known.get(str(key))
        if kind is None:
            remedy = "{0}use keys of the chart {1}".format(nearest(str(key), known), VERSION)
            yield NodeError("option values", "{0} is no key of the GPU operator's chart".format(here), remedy)
        elif kind == "{}" and not isinstance(value, Mapping):
            keys = ", ".join(sorted(_KEYS[here])[:6])
            yield NodeError("option values", "{0} is no mapping".format(here), "give it keys such as " + keys)
        elif kind == "{}":
            yield from wrong(value, here)
        elif kind == "?" and not isinstance(value, bool):
            # To a template the text "false" is true.
            reason = "{0} is {1!r}, and neither true nor false".format(here, value)
            yield NodeError("option values", reason, "give true or false without quotes")
        elif kind == "" and isinstance(value, (Mapping, list, tuple)):
            yield NodeError("option values", "{0} is not a single value".format(here), "give a text or a number")


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> Dict[str, Any]:
    """As helm merges files of values: mappings are merged, all else is replaced."""
    found = dict(first)
    for key, value in second.items():
        before = found.get(key)
        found[key] = merged(before, value) if isinstance(value, Mapping) and isinstance(before, Mapping) else value
    return found


def flat(values: Mapping[str, Any], path: Tuple[str, ...] = ()) -> Dict[str, Any]:
    """The values that are no mappings, by their dotted keys; an empty mapping is one of them."""
    found: Dict[str, Any] = {}
    for key, value in values.items():
        here = (*path, str(key))
        if isinstance(value, Mapping) and value:
            found.update(flat(value, here))
        else:
            found[".".join(here)] = value
    return found


def differences(wanted: Mapping[str, Any], seen: Mapping[str, Any]) -> List[str]:
    """The dotted keys of ``wanted`` that ``seen`` has other values of."""
    there = flat(seen)
    return [key for key, value in flat(wanted).items() if there.get(key) != value]
