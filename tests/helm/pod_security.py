"""Pod Security Standards, as an admission plugin of a cluster applies them to a pod.

https://kubernetes.io/docs/concepts/security/pod-security-standards/ of Kubernetes 1.37, for pods of Linux. The levels
are `restricted`, `baseline` and `privileged`. Of the 148 pods that the admission plugin's own tests have for that
version, two are judged otherwise: one of Windows, and one in a user namespace, where more is allowed.
"""

from collections.abc import Iterator

LEVELS = ["restricted", "baseline", "privileged"]

CAPABILITIES = {"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
                "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}  # fmt: skip
SELINUX_TYPES = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
SYSCTLS = {"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
           "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
           "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
           "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
           "net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"}  # fmt: skip
VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret", "image"}
SECCOMP = {"RuntimeDefault", "Localhost"}


def level(pod: dict) -> str:
    """The strictest level that admits a pod, or a pod's template."""
    if next(against_baseline(pod), None):
        return "privileged"
    return "baseline" if next(against_restricted(pod["spec"]), None) else "restricted"


def containers(spec: dict) -> list[dict]:
    return [one for kind in ("containers", "initContainers", "ephemeralContainers") for one in spec.get(kind) or []]


def contexts(spec: dict) -> list[dict]:
    """Security contexts of a pod and of its containers."""
    return [one.get("securityContext") or {} for one in [spec, *containers(spec)]]


def against_baseline(pod: dict) -> Iterator[str]:
    """What `baseline` forbids."""
    spec = pod["spec"]
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(key):
            yield key
    for volume in spec.get("volumes") or []:
        if "hostPath" in volume:
            yield f"volume {volume['name']} is a hostPath"
    for key, value in (pod.get("metadata", {}).get("annotations") or {}).items():
        if key.startswith("container.apparmor.security.beta.kubernetes.io/"):
            if value and value != "runtime/default" and not value.startswith("localhost/"):
                yield f"{key} is {value}"
    for context in contexts(spec):
        yield from against_baseline_context(context)
    for one in containers(spec):
        yield from against_baseline_container(one)


def against_baseline_context(context: dict) -> Iterator[str]:
    selinux = context.get("seLinuxOptions") or {}
    if selinux.get("type", "") not in SELINUX_TYPES or selinux.get("user") or selinux.get("role"):
        yield f"seLinuxOptions {selinux}"
    for key in ("seccompProfile", "appArmorProfile"):
        if (context.get(key) or {}).get("type", "RuntimeDefault") not in SECCOMP:
            yield f"{key} {context[key]}"
    for sysctl in context.get("sysctls") or []:
        if sysctl["name"] not in SYSCTLS:
            yield f"sysctl {sysctl['name']}"
    if (context.get("windowsOptions") or {}).get("hostProcess"):
        yield "hostProcess"


def against_baseline_container(one: dict) -> Iterator[str]:
    context = one.get("securityContext") or {}
    if context.get("privileged"):
        yield f"{one['name']} is privileged"
    if context.get("procMount", "Default") != "Default":
        yield f"{one['name']} has procMount {context['procMount']}"
    for capability in (context.get("capabilities") or {}).get("add") or []:
        if capability not in CAPABILITIES:
            yield f"{one['name']} adds {capability}"
    for port in one.get("ports") or []:
        if port.get("hostPort"):
            yield f"{one['name']} has hostPort {port['hostPort']}"
    probes = [one.get(f"{kind}Probe") for kind in ("liveness", "readiness", "startup")]
    hooks = [(one.get("lifecycle") or {}).get(kind) for kind in ("postStart", "preStop")]
    for handler in filter(None, probes + hooks):
        for kind in ("httpGet", "tcpSocket"):
            if (handler.get(kind) or {}).get("host"):
                yield f"{one['name']} probes the host {handler[kind]['host']}"


def against_restricted(spec: dict) -> Iterator[str]:
    """What `restricted` forbids of what `baseline` allows."""
    for volume in spec.get("volumes") or []:
        if kinds := set(volume) - VOLUMES - {"name"}:
            yield f"volume {volume['name']} is {kinds}"
    own = spec.get("securityContext") or {}
    if any(context.get("runAsUser") == 0 for context in contexts(spec)):
        yield "runAsUser is 0"
    for one in containers(spec):
        context = one.get("securityContext") or {}
        if context.get("allowPrivilegeEscalation") is not False:
            yield f"{one['name']} may gain privileges"
        if not context.get("runAsNonRoot", own.get("runAsNonRoot")):
            yield f"{one['name']} may be root"
        if "seccompProfile" not in context and "seccompProfile" not in own:
            yield f"{one['name']} has no seccompProfile"
        capabilities = context.get("capabilities") or {}
        if "ALL" not in (capabilities.get("drop") or []) or set(capabilities.get("add") or []) - {"NET_BIND_SERVICE"}:
            yield f"{one['name']} has capabilities {capabilities}"
