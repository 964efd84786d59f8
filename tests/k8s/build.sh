#!/bin/bash
# Builds the programs of a real Kubernetes 1.20.2 from Debian 12's source package, which holds the whole
# tree: no module is downloaded. About 13 minutes of processor time once; kept in $K8S_HOME.
set -euo pipefail

home=${K8S_HOME:-/var/tmp/headwater-k8s}
bin=$home/bin
work=$home/work
programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy)

missing=
for program in "${programs[@]}"; do [ -x "$bin/$program" ] || missing=1; done
[ -n "$missing" ] || exit 0

DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends golang-1.19-go dpkg-dev >/dev/null
mkdir -p "$work" "$bin"
cd "$work"
if [ ! -d kubernetes-1.20.2 ]; then
    # Source lists of its own, so that the machine's stay as they are.
    mkdir -p apt/lists/partial apt/empty apt/cache/archives/partial
    mirror=$(sed -n 's#^URIs: ##p' /etc/apt/sources.list.d/debian.sources | head -1)
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    echo "deb-src [signed-by=$keyring] $mirror bookworm main" >apt/src.list
    options=(-o "Dir::Etc::sourcelist=$work/apt/src.list" -o "Dir::Etc::sourceparts=$work/apt/empty"
        -o "Dir::State::lists=$work/apt/lists" -o "Dir::Cache=$work/apt/cache")
    apt-get "${options[@]}" -qq update
    apt-get "${options[@]}" -qq source --download-only kubernetes
    tar xzf kubernetes_1.20*orig.tar.gz
fi

export PATH=/usr/lib/go-1.19/bin:$PATH GO111MODULE=off CGO_ENABLED=0 GOFLAGS= GOPROXY=off
export GOPATH=$work/gopath GOCACHE=$work/gocache
mkdir -p gopath/src/k8s.io
ln -sfn "$work/kubernetes-1.20.2" gopath/src/k8s.io/kubernetes
cd gopath/src/k8s.io/kubernetes

# The one file that upstream generates and does not check in.
if [ ! -f pkg/generated/openapi/zz_generated.openapi.go ]; then
    go build -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
    marked=$(grep -rl --include=*.go '^// *+k8s:openapi-gen=' staging/src/k8s.io pkg cmd |
        grep -v -E 'code-generator|sample-|/testdata/|_test.go|kube-aggregator/pkg/generated' |
        xargs -n1 dirname | sort -u |
        sed -E 's#^staging/src/#k8s.io/kubernetes/vendor/#; t; s#^#k8s.io/kubernetes/#' | paste -sd,)
    "$work/openapi-gen" --logtostderr -i "$marked" -p k8s.io/kubernetes/pkg/generated/openapi \
        -O zz_generated.openapi -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt \
        -r "$work/openapi.report" -o "$GOPATH/src"
fi

flags='-s -w'
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    for prefix in '' k8s.io/kubernetes/vendor/; do
        for pair in gitVersion=v1.20.2 gitMajor=1 gitMinor=20 gitTreeState=clean gitCommit=debian; do
            flags+=" -X $prefix$package.$pair"
        done
    done
done
for program in "${programs[@]}"; do
    [ -x "$bin/$program" ] || go build -ldflags "$flags" -o "$bin/$program" "./cmd/$program"
done
