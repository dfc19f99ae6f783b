"""The Kubernetes manifests: valid by Kubernetes' own schemas, their parts fit each other and the proxy."""

from __future__ import annotations

import shutil
from functools import cache
from typing import TYPE_CHECKING, Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from proxy.config import load
from tests.packaging.commands import output_of
from tests.packaging.files import ROOT, image_environ, read_final_stage

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.settings import Settings

FOLDER = ROOT / "deploy" / "kubernetes"
KINDS = {"Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget", "NetworkPolicy"}
CUT_S = 2
"""For how long streams that were cut are waited for (docs/operations.md, Stopping)."""

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")

TEXT = {"type": "string"}
SERVICE_MONITOR = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "monitoring.coreos.com/v1"},
        "kind": {"const": "ServiceMonitor"},
        "spec": {
            "type": "object",
            "required": ["selector", "endpoints"],
            "additionalProperties": False,
            "properties": {
                "selector": {"type": "object", "required": ["matchLabels"]},
                "endpoints": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {
                            "port": {"type": "string"},
                            "path": {"type": "string", "pattern": "^/"},
                            "interval": {"type": "string", "pattern": r"^\d+(ms|s|m)$"},
                            "authorization": {
                                "type": "object",
                                "additionalProperties": False,
                                "properties": {
                                    "credentials": {
                                        "type": "object",
                                        "additionalProperties": False,
                                        "required": ["key"],
                                        "properties": {"name": TEXT, "key": TEXT},
                                    }
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}
"""The part of the Prometheus operator's CRD that the file uses."""


@cache
def read_folder(name: str) -> dict[str, Any]:
    """The manifests of a folder by their kind, as they are written; there is one of each."""
    found = [
        manifest
        for path in sorted((FOLDER / name).glob("*.yaml"))
        for manifest in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if "kind" in manifest and manifest["kind"] not in {"Kustomization", "Component"}
    ]
    kinds = {manifest["kind"]: manifest for manifest in found}
    assert len(kinds) == len(found)
    return kinds


def build(name: str) -> dict[str, Any]:
    """The manifests that kustomize makes of a folder, by their kind."""
    manifests = list(yaml.safe_load_all(output_of("kubectl", "kustomize", FOLDER / name)))
    kinds = {manifest["kind"]: manifest for manifest in manifests}
    assert len(kinds) == len(manifests)
    return kinds


def pod_of(name: str) -> dict[str, Any]:
    pod: dict[str, Any] = read_folder(name)["Deployment"]["spec"]["template"]["spec"]
    return pod


def proxy_of(name: str) -> dict[str, Any]:
    (container,) = pod_of(name)["containers"]
    assert container["name"] == "proxy"
    return dict(container)


def read_settings(path: Path, keys: Path) -> Settings:
    """What the proxy makes of a configuration that is mounted into it, in the environment of the image."""
    keys.write_text("secret\n")
    text = path.read_text(encoding="utf-8").replace("/run/secrets/think-proxy/api-keys", str(keys))
    copy = keys.with_name("proxy.yaml")
    copy.write_text(text)
    return load(copy, environ=image_environ())


@pytest.mark.parametrize("version", ["1.30", "1.37"])
@pytest.mark.parametrize("name", ["base", "sidecar"])
def test_manifests_are_valid(name: str, version: str) -> None:
    for manifest in read_folder(name).values():
        kubernetes_validate.validate(manifest, version, strict=True)


@needs_kubectl
@pytest.mark.parametrize("name", ["base", "example", "sidecar"])
def test_what_kustomize_makes_of_them_is_valid(name: str) -> None:
    made = build(name)
    assert "ConfigMap" in made
    for kind, manifest in made.items():
        if kind == "ServiceMonitor":
            jsonschema.validate(manifest, SERVICE_MONITOR)
        else:
            kubernetes_validate.validate(manifest, "1.37", strict=True)


def test_the_base_has_all_that_it_should() -> None:
    assert read_folder("base").keys() == KINDS
    listed = yaml.safe_load((FOLDER / "base" / "kustomization.yaml").read_text())["resources"]
    assert {path.name for path in (FOLDER / "base").glob("*.yaml")} == {
        "kustomization.yaml",
        "proxy.yaml",
        *listed,
    }


@pytest.mark.parametrize("name", ["base", "sidecar"])
def test_selectors_meet_the_pods_and_no_others(name: str) -> None:
    manifests = read_folder(name)
    labels = manifests["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert labels
    assert manifests["Deployment"]["spec"]["selector"] == {"matchLabels": labels}
    assert manifests["Service"]["spec"]["selector"] == labels
    assert manifests["Service"]["spec"]["ports"][0]["targetPort"] == proxy_of(name)["ports"][0]["name"]
    for kind, key in [("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")]:
        if kind in manifests:
            assert manifests[kind]["spec"][key] == {"matchLabels": labels}


def test_the_autoscaler_scales_the_deployment_which_does_not_scale_itself() -> None:
    manifests = read_folder("base")
    target = manifests["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", manifests["Deployment"]["metadata"]["name"])
    assert "replicas" not in manifests["Deployment"]["spec"]
    # A budget of one that may be missing is a standstill for a deployment of one.
    assert manifests["HorizontalPodAutoscaler"]["spec"]["minReplicas"] > 1


@pytest.mark.parametrize("name", ["base", "sidecar"])
def test_the_proxy_has_no_rights(name: str) -> None:
    pod, proxy = pod_of(name), proxy_of(name)
    rights = pod.get("securityContext", {}) | proxy["securityContext"]
    (user,) = [i.rest for i in read_final_stage() if i.word == "USER"]
    assert f"{rights['runAsUser']}:{rights['runAsGroup']}" == user
    assert rights["runAsNonRoot"] is True
    assert rights["readOnlyRootFilesystem"] is True
    assert rights["allowPrivilegeEscalation"] is False
    assert rights["capabilities"] == {"drop": ["ALL"]}
    assert rights["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False


@pytest.mark.parametrize("name", ["base", "sidecar"])
def test_probes_ask_the_paths_that_are_for_them(name: str) -> None:
    proxy = proxy_of(name)
    asked = {kind: proxy[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")}
    assert asked == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    # /readyz gives a model server two seconds (proxy/health.py).
    assert proxy["readinessProbe"]["timeoutSeconds"] > 2


@pytest.mark.parametrize("name", ["base", "example", "sidecar"])
def test_the_configuration_loads_and_its_drain_fits_into_the_grace_period(name: str, tmp_path: Path) -> None:
    settings = read_settings(FOLDER / name / "proxy.yaml", tmp_path / "keys")
    pod = pod_of("sidecar" if name == "sidecar" else "base")
    assert settings.drain_delay_s >= 5, "endpoints take a moment to go"
    assert settings.drain_delay_s + settings.drain_s + CUT_S < pod["terminationGracePeriodSeconds"]
    assert settings.listen.host == "0.0.0.0"
    ports = proxy_of("sidecar" if name == "sidecar" else "base")["ports"]
    assert ports == [{"name": "http", "containerPort": settings.listen.port}]
    assert (settings.api_keys_file is None) is (name == "sidecar")


@pytest.mark.parametrize("name", ["base", "sidecar"])
def test_what_is_mounted_is_what_the_proxy_reads(name: str) -> None:
    proxy, pod = proxy_of(name), pod_of(name)
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in proxy["volumeMounts"]}
    folder, _, file = image_environ()["THINK_PROXY_CONFIG"].rpartition("/")
    (made,) = yaml.safe_load((FOLDER / name / "kustomization.yaml").read_text())["configMapGenerator"]
    assert mounts[folder]["configMap"]["name"] == made["name"]
    assert file in made["files"]
    assert all(mount["readOnly"] for mount in proxy["volumeMounts"])
    text = (FOLDER / name / "proxy.yaml").read_text()
    secrets = [path for path, volume in mounts.items() if "secret" in volume]
    assert all(f"apiKeysFile: {path}/api-keys" in text for path in secrets)


def test_the_network_policy_lets_the_model_server_of_the_base_through() -> None:
    policy = read_folder("base")["NetworkPolicy"]["spec"]
    (rule,) = [rule for rule in policy["egress"] if rule["ports"][0]["port"] == 8000]
    assert rule["to"] == [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "vllm"}}}]
    assert all(port["port"] == "http" for rule in policy["ingress"] for port in rule["ports"])


def test_the_monitor_scrapes_the_service() -> None:
    monitor = read_folder("monitoring")["ServiceMonitor"]
    service = read_folder("base")["Service"]
    jsonschema.validate(monitor, SERVICE_MONITOR)
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    secrets = [volume["secret"]["secretName"] for volume in pod_of("base")["volumes"] if "secret" in volume]
    assert [endpoint["authorization"]["credentials"]["name"]] == secrets


@needs_kubectl
def test_the_example_lets_prometheus_in_and_brings_its_own_configuration() -> None:
    made = build("example")
    sources = [source for rule in made["NetworkPolicy"]["spec"]["ingress"] for source in rule["from"]]
    names = [
        source.get("namespaceSelector", {}).get("matchLabels", {}).get("kubernetes.io/metadata.name")
        for source in sources
    ]
    assert "monitoring" in names
    assert made["ConfigMap"]["data"]["proxy.yaml"] == (FOLDER / "example" / "proxy.yaml").read_text()
    pod = made["Deployment"]["spec"]["template"]["spec"]
    (config,) = [volume for volume in pod["volumes"] if "configMap" in volume]
    assert config["configMap"]["name"] == made["ConfigMap"]["metadata"]["name"]


def test_beside_vllm_the_proxy_stops_first_and_is_the_only_way_in(tmp_path: Path) -> None:
    pod = pod_of("sidecar")
    (vllm,) = pod["initContainers"]
    # What makes an init container a sidecar: started before, stopped after the pod's own containers.
    assert vllm["restartPolicy"] == "Always"
    command = vllm["command"]
    host, port, model = command[command.index("--host") + 1], command[command.index("--port") + 1], command[2]
    settings = read_settings(FOLDER / "sidecar" / "proxy.yaml", tmp_path / "keys")
    assert settings.upstream == f"http://{host}:{port}"
    assert host == "127.0.0.1"
    assert [entry.name for entry in settings.entries] == [model]
    assert "ports" not in vllm
    # The kubelet asks from outside the pod's loopback: it has to be a command.
    assert {key for kind in ("startup", "liveness") for key in vllm[f"{kind}Probe"]} >= {"exec"}
    assert f"{host}:{port}/health" in vllm["startupProbe"]["exec"]["command"][-1]
